//! Arrow tables, handed over by the Arrow PyCapsule interface.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;

/// A table that any Arrow library can import: `pyarrow.table(t)`, `polars.DataFrame(t)`.
#[pyclass(frozen, module = "spindle._native")]
pub(crate) struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface. Only the table's own schema is supported.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.0.schema();
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
}

/// Builds a table column by column.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(mut self, name: &str, unit: &str, kind: DataType, array: ArrayRef) -> Self {
        let nullable = array.null_count() > 0 || kind == DataType::Float64;
        let mut field = Field::new(name, kind, nullable);
        if !unit.is_empty() {
            let unit = HashMap::from([("unit".to_owned(), unit.to_owned())]);
            field = field.with_metadata(unit);
        }
        self.fields.push(field);
        self.arrays.push(array);
        self
    }

    /// Text.
    pub(crate) fn text<T: AsRef<str>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Self {
        let array: StringArray = values.into_iter().collect();
        self.add(name, "", DataType::Utf8, Arc::new(array))
    }

    /// Whole numbers, in this unit if it is not empty.
    pub(crate) fn whole(
        self,
        name: &str,
        unit: &str,
        values: impl IntoIterator<Item = Option<u64>>,
    ) -> Self {
        let array: UInt64Array = values.into_iter().collect();
        self.add(name, unit, DataType::UInt64, Arc::new(array))
    }

    /// Numbers in this unit.
    pub(crate) fn number(
        self,
        name: &str,
        unit: &str,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let array: Float64Array = values.into_iter().collect();
        self.add(name, unit, DataType::Float64, Arc::new(array))
    }

    /// Adds to the last column how many completed flows a row needs for a value.
    pub(crate) fn wanted_flows(mut self, flows: u64) -> Self {
        if let Some(field) = self.fields.pop() {
            let mut metadata = field.metadata().clone();
            metadata.insert("flows wanted".to_owned(), flows.to_string());
            self.fields.push(field.with_metadata(metadata));
        }
        self
    }

    /// Booleans.
    pub(crate) fn flag(self, name: &str, values: impl IntoIterator<Item = bool>) -> Self {
        let array: BooleanArray = values.into_iter().map(Some).collect();
        self.add(name, "", DataType::Boolean, Arc::new(array))
    }

    /// The table.
    pub(crate) fn table(self) -> PyResult<Table> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
            .map(Table)
            .map_err(|e| errors::internal(&e.to_string()))
    }
}
