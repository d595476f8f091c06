/** What a column of nested values holds, in words that Arrow, Parquet and Hugging Face datasets share. */

/** `int` is 32 bits wide, `number` 64 bits of floating point; `json` is any JSON value. Every value may be null. */
export type ValueShape =
  | 'text'
  | 'int'
  | 'number'
  | 'bool'
  | 'json'
  | { readonly list: ValueShape }
  | { readonly struct: Readonly<Record<string, ValueShape>> };

/** Columns by name, in order. */
export type Shapes = Readonly<Record<string, ValueShape>>;

const DTYPES = { text: 'string', int: 'int32', number: 'float64', bool: 'bool' } as const;

function featureOf(shape: ValueShape): unknown {
  if (shape === 'json') return { _type: 'Json' };
  if (typeof shape === 'string') return { dtype: DTYPES[shape], _type: 'Value' };
  if ('list' in shape) return { feature: featureOf(shape.list), _type: 'List' };
  return featuresOf(shape.struct);
}

/** The columns as the `features` of Hugging Face datasets, which reads `json` as values from version 4.7 on. */
export const featuresOf = (shapes: Shapes): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, featureOf(shape)]));
