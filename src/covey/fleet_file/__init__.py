"""Reads and writes fleet files: the hosts, scopes, aggregates, flavors and images of a cloud."""

from covey.fleet_file.parse import parse
from covey.fleet_file.problems import FleetFileError, Problem
from covey.fleet_file.render import render

__all__ = ["FleetFileError", "Problem", "parse", "render"]
