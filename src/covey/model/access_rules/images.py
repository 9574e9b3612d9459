"""Access rules of the Image API. Names and defaults are Glance's."""

from covey.model.access import AccessRule
from covey.model.access_rules.basics import ADMIN, ANYBODY, MEMBER_OR_ADMIN

IMAGES: tuple[AccessRule, ...] = (
    AccessRule("image:get_images", ANYBODY, "List images.", ("GET /v2/images",)),
    AccessRule("image:get_image", ANYBODY, "Show a visible image.", ("GET /v2/images/{id}",)),
    AccessRule("image:add_image", MEMBER_OR_ADMIN, "Create an image record.", ("POST /v2/images",)),
    AccessRule("image:modify_image", MEMBER_OR_ADMIN, "Change an image record.", ("PATCH /v2/images/{id}",)),
    AccessRule("image:download_image", ANYBODY, "Download the data of a visible image.", ("GET /v2/images/{id}/file",)),
    AccessRule("image:upload_image", MEMBER_OR_ADMIN, "Upload image data.", ("PUT /v2/images/{id}/file",)),
    AccessRule("image:delete_image", MEMBER_OR_ADMIN, "Delete an image record.", ("DELETE /v2/images/{id}",)),
    AccessRule("image:publicize_image", ADMIN, "Make an image public.", ("POST /v2/images", "PATCH /v2/images/{id}")),
    AccessRule("image:any_project", ADMIN, "See other projects' private images.", ("GET /v2/images",)),
)
