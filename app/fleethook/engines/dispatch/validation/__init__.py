"""Validates webhook configurations as an apiserver does, and warns of likely mistakes."""
