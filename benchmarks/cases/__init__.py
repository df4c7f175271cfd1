"""Parts of the results: each module measures one."""
