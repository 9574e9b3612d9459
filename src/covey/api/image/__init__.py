"""The Image API without image data: records with properties."""
