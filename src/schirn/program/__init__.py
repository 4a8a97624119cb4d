"""Code shared by the commands of the app and of the lab: options, output and HTML pages."""
