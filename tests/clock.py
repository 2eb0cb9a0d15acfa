"""The virtual clock of `controller.testing`, and `settle`, for the project's own tests."""

from controller.testing.clock import START, VirtualClock, settle

__all__ = ["START", "VirtualClock", "settle"]
