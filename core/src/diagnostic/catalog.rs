//! Every diagnostic code and its page (`netlab explain NLxxxx`).
