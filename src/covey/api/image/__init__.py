"""The Image API, as far as a catalogue goes: records with properties, no image data."""
