"""Roles imply lesser roles."""

import pytest

from covey.model.access import with_implied_roles

ROLES = {
    "an administrator is all the others": ({"admin"}, {"admin", "manager", "member", "reader"}),
    "a manager is a member and a reader": ({"manager"}, {"manager", "member", "reader"}),
    "a member is a reader": ({"member"}, {"member", "reader"}),
    "a reader is a reader": ({"reader"}, {"reader"}),
    "another role brings nothing along": ({"auditor"}, {"auditor"}),
    "several bring along what each does": ({"auditor", "member"}, {"auditor", "member", "reader"}),
    "no role implies nothing": (set(), set()),
    "another case is another role": ({"Admin"}, {"Admin"}),
}


@pytest.mark.parametrize(("given", "roles"), ROLES.values(), ids=ROLES)
def test_role_implies_lesser_roles(given: set[str], roles: set[str]) -> None:
    assert with_implied_roles(frozenset(given)) == roles
