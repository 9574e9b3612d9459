"""A read-only corner of the Identity API, so that the clients can look projects up."""
