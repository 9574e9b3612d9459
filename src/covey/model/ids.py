"""Distinct types for ids, so that mypy rejects one kind of id in place of another."""

from typing import NewType

HostId = NewType("HostId", int)
AggregateId = NewType("AggregateId", int)
FlavorId = NewType("FlavorId", str)
ImageId = NewType("ImageId", str)
ScopeId = NewType("ScopeId", str)
ProjectId = NewType("ProjectId", str)
UserId = NewType("UserId", str)
GroupId = NewType("GroupId", str)
ServerId = NewType("ServerId", str)
