"""Change feeds in: the commit-log tail, replayable feed streams, scans."""
