"""The Image API: records with properties, and their data."""
