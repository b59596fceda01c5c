"""Training in the loop: rollouts through the solver, schedules, and runs that survive."""
