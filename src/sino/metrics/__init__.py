"""Functions of arrays that say how good a simulation is."""
