"""Health checks of Argo CD as interpreters."""
