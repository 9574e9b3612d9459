from tests.functional.client import Client


def test_aggregate_is_created_shown_and_deleted(admin: Client) -> None:
    created = admin.at("2.81").post("/os-aggregates", {"aggregate": {"name": "fast", "availability_zone": "z1"}})
    assert created.status == 200, created.text
    key = created.json["aggregate"]["id"]
    assert admin.get(f"/os-aggregates/{key}").json["aggregate"]["metadata"] == {"availability_zone": "z1"}
    assert admin.delete(f"/os-aggregates/{key}").status == 200
    assert admin.get(f"/os-aggregates/{key}").message == f"Aggregate {key} could not be found."
