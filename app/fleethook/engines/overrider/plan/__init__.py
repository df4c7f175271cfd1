"""Plans: the rendering of one pool, compiled once for each change of its inputs."""
