"""The machine beneath: threads that end, files read and written whole, versions."""
