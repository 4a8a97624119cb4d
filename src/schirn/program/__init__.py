"""The kit of all commands, those of the app and of the lab: options, output and HTML pages."""
