"""Services: what a server is made of, each with one life cycle, and the stack that drives them.

`service` says what a service is, `stack` opens and closes them. Which there are, and in which order they open, is in
`penstock.server`. No rules of streaming and no protocol here.
"""
