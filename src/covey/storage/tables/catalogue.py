"""Flavors, images, key pairs and quotas."""

import sqlalchemy as sa

from covey.storage.tables.base import NAME, PROJECT, TEXT, UUID, metadata, owned_by

flavors = sa.Table(
    "flavors",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("flavorid", NAME, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("disk_gb", sa.Integer, nullable=False),
    sa.Column("ephemeral_gb", sa.Integer, nullable=False),
    sa.Column("swap_mb", sa.Integer, nullable=False),
    sa.Column("rxtx_factor", sa.Double, nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False),
    sa.Column("description", TEXT),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime),
    sa.CheckConstraint("vcpus >= 1", "vcpus"),
    sa.CheckConstraint("memory_mb >= 1", "memory"),
    sa.CheckConstraint("disk_gb >= 0", "disk"),
    sa.CheckConstraint("ephemeral_gb >= 0", "ephemeral"),
    sa.CheckConstraint("swap_mb >= 0", "swap"),
    sa.CheckConstraint("rxtx_factor > 0", "rxtx"),
)

flavor_extra_specs = sa.Table(
    "flavor_extra_specs",
    metadata,
    owned_by(flavors),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", NAME, nullable=False),
)

flavor_access = sa.Table(
    "flavor_access",
    metadata,
    owned_by(flavors),
    sa.Column("project_id", PROJECT, primary_key=True),
)

deleted_images = sa.Table(  # an id is never used again: servers still refer to it
    "deleted_images",
    metadata,
    sa.Column("id", UUID, primary_key=True),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", UUID, primary_key=True),
    sa.Column("name", NAME, index=True),
    sa.Column("owner", PROJECT, nullable=False, index=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("visibility", sa.String(16), nullable=False),
    sa.Column("disk_format", NAME),
    sa.Column("container_format", NAME),
    sa.Column("min_disk_gb", sa.Integer, nullable=False),
    sa.Column("min_ram_mb", sa.Integer, nullable=False),
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("md5", sa.String(32)),
    sa.Column("sha512", sa.String(128)),  # NULL until data was uploaded
    sa.Column("upload_id", UUID),  # the upload that is under way, until its lease ends
    sa.Column("upload_until", sa.DateTime),
    sa.Column("upload_bytes", sa.BigInteger),  # reserved for it in the project's quota
    sa.Column("protected", sa.Boolean, nullable=False),
    sa.Column("hidden", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
    sa.CheckConstraint("min_disk_gb >= 0", "min_disk"),
    sa.CheckConstraint("min_ram_mb >= 0", "min_ram"),
)

image_properties = sa.Table(
    "image_properties",
    metadata,
    sa.Column("image_id", sa.ForeignKey(images.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("key", NAME, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
)

image_tags = sa.Table(
    "image_tags",
    metadata,
    sa.Column("image_id", sa.ForeignKey(images.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", NAME, primary_key=True),
)

key_pairs = sa.Table(
    "key_pairs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("user_id", PROJECT, nullable=False),
    sa.Column("name", NAME, nullable=False),
    sa.Column("type", sa.String(16), nullable=False),
    sa.Column("public_key", TEXT, nullable=False),
    sa.Column("fingerprint", NAME, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.UniqueConstraint("user_id", "name"),
)

quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("project_id", PROJECT, primary_key=True),
    sa.Column("resource", NAME, primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", "limit"),
)

quota_classes = sa.Table(
    "quota_classes",
    metadata,
    sa.Column("class_name", NAME, primary_key=True),
    sa.Column("resource", NAME, primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.CheckConstraint("hard_limit >= -1", "limit"),
)

quota_usages = sa.Table(
    "quota_usages",
    metadata,
    sa.Column("project_id", PROJECT, primary_key=True),
    sa.Column("instances", sa.BigInteger, nullable=False),
    sa.Column("cores", sa.BigInteger, nullable=False),
    sa.Column("ram", sa.BigInteger, nullable=False),
    sa.CheckConstraint("instances >= 0 AND cores >= 0 AND ram >= 0", "not_negative"),
)
