"""Tests: one folder per package, contract/ for both API servers, faults/, bench/."""
