pub(crate) mod linear;
