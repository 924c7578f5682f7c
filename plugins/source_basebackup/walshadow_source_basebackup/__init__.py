"""walshadow plugin."""
