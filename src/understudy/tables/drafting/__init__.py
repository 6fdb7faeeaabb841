"""Drafts of schemas: what a look at a table suggests, and what its owner must decide.

The one rule: a draft looks and does not tell. No bound and no category comes from a cell. What does follow from the
cells is one of a few public choices (a kind, a format, a spelling of a missing value) and is marked in the draft.

`reading` gets cells as text, `missing`, `dates`, `numbers` and `personal` judge one column, `relations` judges several,
`catalogue` knows columns by their names, `columns` weighs it all up, `draft` puts it together, `questions` lists what
is open and `writing` writes TOML.
"""
