"""The parts of `glyphs`: the fonts' characters, their pictures, and the 40 attributes that are its tasks."""
