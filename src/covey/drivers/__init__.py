"""Drivers: one module for each backend that carries out decisions."""
