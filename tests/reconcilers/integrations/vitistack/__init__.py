"""The parts of the integration with vitistack."""
