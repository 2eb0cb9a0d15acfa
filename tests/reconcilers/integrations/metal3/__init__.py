"""The parts of the integration with metal3."""
