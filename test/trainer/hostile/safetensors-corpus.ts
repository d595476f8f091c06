/** Files that call themselves safetensors. */
import { execFileSync } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { type Entry, entry, repeated, sparse } from './entry.ts';

/** A file from a header written by hand and as many data bytes as wanted. */
export function file(header: string | object, dataBytes = 0, claim?: bigint): Uint8Array {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, claim ?? BigInt(json.length), true);
  bytes.set(json, 8);
  return bytes;
}

const length = (bytes: number | bigint): Uint8Array => {
  const first = new Uint8Array(8);
  new DataView(first.buffer).setBigUint64(0, BigInt(bytes), true);
  return first;
};

const t = (shape: unknown, begin: unknown, end: unknown, dtype: unknown = 'F32'): object => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});
const one = t([1], 0, 4);
const json = JSON.stringify(one);
const sound = file({ __metadata__: { format: 'pt' }, a: t([2, 3], 0, 24), b: t([2], 24, 32) }, 32);
const MiB16 = 16 * 1024 * 1024;

/** A header of exactly 16 MiB, the most that is read: `head`, then `piece` as often as it fits, then `last`. */
function widest(head: string, piece: string, last: string): (path: string) => Promise<void> {
  const times = Math.floor((MiB16 - head.length - last.length) / piece.length);
  const rest = MiB16 - head.length - last.length - times * piece.length;
  return repeated(Buffer.concat([length(MiB16), Buffer.from(head)]), piece, times, `${' '.repeat(rest)}${last}`);
}

const DAMAGED = 'checkpoint_damaged';
const UNSUPPORTED = 'model_unsupported';

export const safetensorsCorpus: readonly Entry[] = [
  entry('sound', sound, 'read'),
  entry('sound: no tensors', file('{}'), 'read'),
  entry('sound: spaces around everything', file(` {}`.slice(1).concat('  '), 0), 'read'),
  entry('sound: tensors of no elements beside others', file({ a: t([0], 0, 0), b: t([1], 0, 4) }, 4), 'read'),
  entry('empty', '', DAMAGED, /0 bytes/),
  entry('7 bytes', new Uint8Array(7), DAMAGED, /7 bytes/),
  entry('8 bytes, header of 0', length(0), DAMAGED, /start with \{/),
  entry('header of 0 and data', Buffer.concat([length(0), new Uint8Array(64)]), DAMAGED, /start with \{/),
  entry('header of 7 that is cut', file('{"a": 1}', 0, 7n), DAMAGED, /not JSON/),
  entry('header longer than the file', file('{}', 0, 3n), DAMAGED, /only 2 follow/),
  entry('header of the file and one', file('{}', 8, 11n), DAMAGED, /only 10 follow/),
  entry('header of 2^31', file('{}', 0, 2n ** 31n), DAMAGED, /2147483648/),
  entry('header of 2^53', file('{}', 0, 2n ** 53n), DAMAGED, /9007199254740992/),
  entry('header of 2^63', file('{}', 0, 2n ** 63n), DAMAGED, /9223372036854775808/),
  entry('header of 2^64 - 1', file('{}', 0, 2n ** 64n - 1n), DAMAGED, /18446744073709551615/),
  entry('header of 100 MB that is there', sparse(file('{"a":', 0, 100_000_000n), 100_000_100), DAMAGED, /100000000/),
  entry('header of 100 MB and one', sparse(file('{"a":', 0, 100_000_001n), 100_000_100), DAMAGED, /100000001/),
  entry('header of 16 MiB of spaces', widest('{', ' ', ' '), DAMAGED, /not JSON/),
  entry('header of 16 MiB of open brackets', widest('{"a":', '[', '['), DAMAGED, /nested/),
  entry('header of 16 MiB of open braces', widest('{"a":', '{"a":', '{'), DAMAGED, /nested/),
  entry('header of 16 MiB of empty entries', widest('{"a":{}', ',"b":{}', '}'), DAMAGED, /no dtype/),
  entry('header of 16 MiB in one name', widest('{"', 'a', '":1}'), DAMAGED, /4096 are read/),
  entry('header of 16 MiB in one entry', widest('{"a":{"dtype":"', 'F', '"}}'), DAMAGED, /4096 are read/),
  entry('header of 16 MiB in one shape', widest('{"a":{"shape":[1', ',1', ']}}'), DAMAGED, /4096 are read/),
  entry('header of 16 MiB of metadata', widest('{"__metadata__":{"a":"', 'a', '"}}'), DAMAGED, /are read/),
  entry(
    'header of 1 MB of metadata keys',
    file(`{"__metadata__":{${'"":"",'.repeat(160_000)}"":""}}`),
    DAMAGED,
    /twice/,
  ),
  entry('header of 16 MiB of backslashes', widest('{"', '\\', '"}'), DAMAGED, /4096|no end/),
  entry('header of 16 MiB of commas', widest('{', ',', '}'), DAMAGED, /not JSON/),
  entry(
    '300,000 tensors of no elements',
    file(
      `{${Array.from({ length: 300_000 }, (_, i) => `"${i}":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`).join()}}`.slice(
        0,
        MiB16,
      ),
    ),
    DAMAGED,
    /more than 50000 tensors/,
  ),
  entry('not an object', file('[]'), DAMAGED, /start with \{/),
  entry('a number', file('12345678'), DAMAGED, /start with \{/),
  entry('a space before the brace', file(' {}'), DAMAGED, /start with \{/),
  entry('a byte order mark', file('\ufeff{}'), DAMAGED, /start with \{/),
  entry('not JSON', file('{"a":'), DAMAGED, /not JSON/),
  entry('a comma too many', file(`{"a":${json},}`, 4), DAMAGED, /not JSON/),
  entry('no comma', file(`{"a":${json} "b":${json}}`, 4), DAMAGED, /not JSON|follows/),
  entry('text after the end', file(`{"a":${json}}x`, 4), DAMAGED, /not JSON/),
  entry('a second object after the end', file(`{"a":${json}}{}`, 4), DAMAGED, /not JSON/),
  entry('NaN', file('{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', 4), DAMAGED, /not JSON/),
  entry('single quotes', file(`{'a':${json}}`, 4), DAMAGED, /not JSON/),
  entry('a comment', file(`{/**/"a":${json}}`, 4), DAMAGED, /not JSON/),
  entry('not UTF-8', Buffer.from(file(`{"\u0001":${json}}`, 4)).fill(0xff, 10, 11), DAMAGED, /not JSON/),
  entry('a name twice', file(`{"a":${json},"a":${json}}`, 4), DAMAGED, /"a" twice/),
  entry('a name twice in two spellings', file(`{"a":${json},"\\u0061":${json}}`, 4), DAMAGED, /"a" twice/),
  entry('two shapes', file('{"a":{"dtype":"F32","shape":[9],"shape":[1],"data_offsets":[0,4]}}', 4), DAMAGED, /twice/),
  entry('metadata twice', file(`{"__metadata__":{},"__metadata__":{},"a":${json}}`, 4), DAMAGED, /twice/),
  entry('negative offsets', file({ a: t([1], -4, 0) }, 4), DAMAGED, /data_offsets/),
  entry('crossing offsets', file({ a: t([1], 4, 0) }, 4), DAMAGED, /hold -4/),
  entry('offsets beyond what is exact', file({ a: t([1], 2 ** 60, 2 ** 60 + 4) }, 4), DAMAGED, /data_offsets/),
  entry('offsets as text', file({ a: t([1], '0', '4') }, 4), DAMAGED, /data_offsets/),
  entry('offsets that are fractions', file({ a: t([1], 0.5, 4.5) }, 5), DAMAGED, /data_offsets/),
  entry(
    'three offsets',
    file({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4, 4] } }, 4),
    DAMAGED,
    /data_offsets/,
  ),
  entry('no offsets', file({ a: { dtype: 'F32', shape: [1] } }, 4), DAMAGED, /data_offsets nothing/),
  entry('overlapping', file({ a: t([2], 0, 8), b: t([2], 4, 12) }, 12), DAMAGED, /overlaps/),
  entry('two in one place', file({ a: one, b: one }, 4), DAMAGED, /overlaps/),
  entry('one of no elements inside another', file({ a: t([2], 0, 8), b: t([0], 4, 4) }, 8), DAMAGED, /overlaps/),
  entry('a hole', file({ a: one, b: t([1], 8, 12) }, 12), DAMAGED, /hole of 4/),
  entry('a hole at the beginning', file({ a: t([1], 4, 8) }, 8), DAMAGED, /hole of 4/),
  entry('one of no elements far away', file({ a: one, b: t([0], 400, 400) }, 4), DAMAGED, /hole/),
  entry('bytes left over', file({ a: one }, 5), DAMAGED, /1 bytes follow/),
  entry('8 GB left over', sparse(file({ a: one }, 4), 8e9), DAMAGED, /bytes follow/),
  entry(
    'a program after the end',
    Buffer.concat([file({ a: one }, 4), Buffer.from('PK\x03\x04')]),
    DAMAGED,
    /4 bytes follow/,
  ),
  entry('a tensor of 1 TB', file({ a: t([2 ** 38], 0, 2 ** 40) }, 4), DAMAGED, /need/),
  entry(
    'shape that overflows to what fits',
    file({ a: t([4194305, 4194305, 211106198978564], 0, 4) }, 4),
    DAMAGED,
    /too large/,
  ),
  entry('shape that overflows 64 bits to 0', file({ a: t([2 ** 32, 2 ** 32], 0, 0) }), DAMAGED, /too large/),
  entry('an overflow behind a 0', file({ a: t([2 ** 40, 2 ** 40, 0], 0, 0) }), DAMAGED, /too large/),
  entry('negative dimensions', file({ a: t([-1, -1], 0, 4) }, 4), DAMAGED, /shape/),
  entry('a dimension that is a fraction', file({ a: t([0.5], 0, 2) }, 2), DAMAGED, /shape/),
  entry('a shape that is text', file({ a: t('1', 0, 4) }, 4), DAMAGED, /shape/),
  entry('a shape that is null', file({ a: t(null, 0, 4) }, 4), DAMAGED, /shape/),
  entry('unknown dtype', file({ a: t([1], 0, 4, 'F33') }, 4), UNSUPPORTED, /"F33"/),
  entry('dtype of 8 bits', file({ a: t([4], 0, 4, 'F8_E4M3') }, 4), UNSUPPORTED, /"F8_E4M3"/),
  entry('dtype toString', file({ a: t([1], 0, 4, 'toString') }, 4), UNSUPPORTED, /"toString"/),
  entry('dtype that is a number', file({ a: t([1], 0, 4, 4) }, 4), DAMAGED, /no dtype/),
  entry('a tensor that is null', file({ a: null }), DAMAGED, /no dtype/),
  entry('a tensor that is a list', file({ a: [] }), DAMAGED, /no dtype/),
  entry('a field more', file({ a: { ...one, run: 'me' } }, 4), DAMAGED, /"run"/),
  entry(
    '__proto__ as a tensor',
    file('{"__proto__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 8),
    DAMAGED,
    /follow/,
  ),
  entry('metadata that is a list', file({ __metadata__: [] }), DAMAGED, /__metadata__/),
  entry('metadata that is null', file({ __metadata__: null }), DAMAGED, /__metadata__/),
  entry('metadata of a number', file({ __metadata__: { format: 1 } }), DAMAGED, /__metadata__.format/),
  ...[1, 7, 8, 9, 60, sound.length - 33, sound.length - 32, sound.length - 1].map((cut) =>
    entry(`cut after ${cut} bytes`, sound.slice(0, cut), DAMAGED, /bytes|need|not JSON/),
  ),
  entry('a folder', (path) => mkdir(path).then(() => {}), DAMAGED, /regular file|EISDIR/),
  entry('a pipe', async (path) => void execFileSync('mkfifo', [path]), DAMAGED, /regular file/),
  entry('a device', (path) => symlink('/dev/zero', path), DAMAGED, /regular file/),
  entry('a link to nowhere', (path) => symlink('/nowhere/at/all', path), 'not_found'),
];
