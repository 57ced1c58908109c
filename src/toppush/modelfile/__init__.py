"""The model file: a fitted pipeline with what is known of it, saved so that it is safe to open."""
