"""The database: rows in, values out. SQLite and PostgreSQL by one schema."""
