"""What is guaranteed on new data, and under which assumptions."""
