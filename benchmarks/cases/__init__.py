"""Case studies: public problems, calibrated end to end, with other tools beside."""
