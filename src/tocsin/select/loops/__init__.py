"""The modes as loops over columns: what `select/consumption` says of one event, for many, without objects."""
