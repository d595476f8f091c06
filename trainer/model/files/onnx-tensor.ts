/** Tensors in an ONNX file: that their values are in the file, and that their number matches their shape. */
import { got, TroupeError } from '../../../errors.ts';
import {
  type Budget,
  countVarints,
  damagedMessage,
  type Field,
  fields,
  numbers,
  type Source,
  text,
} from './protobuf-fields.ts';

/** Bits of one value by TensorProto.DataType; strings (8) have none. */
const BITS: Readonly<Record<number, number>> = {
  1: 32,
  2: 8,
  3: 8,
  4: 16,
  5: 16,
  6: 32,
  7: 64,
  9: 8,
  10: 16,
  11: 64,
  12: 32,
  13: 64,
  14: 64,
  15: 128,
  16: 16,
  17: 8,
  18: 8,
  19: 8,
  20: 8,
  21: 4,
  22: 4,
  23: 4,
};
const STRING = 8;

/** Fields of TensorProto that hold values, and which types may use them (all others use int32_data). */
const FLOAT_DATA = 4;
const INT32_DATA = 5;
const STRING_DATA = 6;
const INT64_DATA = 7;
const RAW_DATA = 9;
const DOUBLE_DATA = 10;
const UINT64_DATA = 11;
const HOME: Readonly<Record<number, number>> = {
  1: FLOAT_DATA,
  7: INT64_DATA,
  8: STRING_DATA,
  11: DOUBLE_DATA,
  12: UINT64_DATA,
  13: UINT64_DATA,
  14: FLOAT_DATA,
  15: DOUBLE_DATA,
};

export const outsideData = (what: string): TroupeError =>
  new TroupeError('model_unsupported', `This ONNX file is not self-contained: ${what}.`, {
    expected: 'a model with all of its values inside the file',
    got: what,
    hint: 'Save it in one file: onnx.save_model(onnx.load(PATH), NEW, save_as_external_data=False).',
  });

/**
 * Checks one TensorProto without touching its values. Throws `model_unsupported` where values lie outside the file,
 * `checkpoint_damaged` where they are not what the shape asks for.
 */
export function checkTensor(source: Source, { begin, end }: Field, budget: Budget) {
  let name = '';
  let type = 0;
  const dims: number[] = [];
  const held = new Map<number, number>();
  const seen = new Set<number>();
  for (const field of fields(source, begin, end, budget)) {
    const { number } = field;
    // A reader that takes the first and one that takes the last would see two models in one file.
    if ([2, 8, RAW_DATA].includes(number) && seen.has(number))
      throw damagedMessage(`a tensor has field ${number} twice`);
    seen.add(number);
    if (number === 1) dims.push(...numbers(source, field));
    else if (number === 2) type = field.value;
    else if (number === 3) throw outsideData('a tensor is a segment of another');
    else if (number === 8) name = text(source, field, budget);
    else if (number === 13 || (number === 14 && field.value !== 0)) throw outsideData('a tensor names external data');
    else if (number >= FLOAT_DATA && number <= UINT64_DATA) {
      held.set(number, (held.get(number) ?? 0) + valuesIn(source, field));
    }
    if (dims.length > 64) throw damagedMessage(`tensor ${got(name)} has more than 64 dimensions`);
  }
  const elements = product(name, dims);
  const size = sizeIn(name, type, elements, held);
  if (held.size > 1 || (held.size === 0 && elements > 0) || (held.size === 1 && !size)) {
    const found = [...held].map(([field, count]) => `${count} in field ${field}`).join(' and ') || 'nothing';
    throw damagedMessage(`tensor ${got(name)} of type ${type} and shape [${dims}] holds ${found}`);
  }
  return { name, elements };
}

function product(name: string, dims: readonly number[]): number {
  let elements = 1;
  for (const dim of dims) {
    elements *= dim;
    if (dim < 0 || !Number.isSafeInteger(elements)) throw damagedMessage(`tensor ${got(name)} has the shape [${dims}]`);
  }
  return elements;
}

/** Whether what is held is what the type and the number of elements ask for. */
function sizeIn(name: string, type: number, elements: number, held: ReadonlyMap<number, number>): boolean {
  const bits = BITS[type];
  if (bits === undefined && type !== STRING) throw damagedMessage(`tensor ${got(name)} is of the unknown type ${type}`);
  const [[field, count] = [0, 0]] = held;
  if (field === RAW_DATA) return bits !== undefined && count === Math.ceil((elements * bits) / 8);
  if (field !== (HOME[type] ?? INT32_DATA)) return false;
  return count === (bits === 4 ? Math.ceil(elements / 2) : type === 14 || type === 15 ? 2 * elements : elements);
}

/** Values in one field: bytes of raw data, else elements. */
function valuesIn(source: Source, { number, kind, begin, end }: Field): number {
  const bytes = end - begin;
  if (number === RAW_DATA) return bytes;
  if (number === STRING_DATA || kind !== 'bytes') return 1;
  if (number === FLOAT_DATA) return bytes / 4;
  return number === DOUBLE_DATA ? bytes / 8 : countVarints(source, begin, end);
}
