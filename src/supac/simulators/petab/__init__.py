"""Problems in PEtab, the format of systems biology, with SBML models run by libRoadRunner."""

from supac.simulators.petab.model import SimulationError
from supac.simulators.petab.problem import Problem, load, read
from supac.simulators.petab.tables import PEtabError

__all__ = ["PEtabError", "Problem", "SimulationError", "load", "read"]
