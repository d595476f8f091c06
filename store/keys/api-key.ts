/**
 * The text of an API key: `troupe_<lookup>_<secret><checksum>`. The lookup finds its row, the secret is 256 random bits, and the checksum
 * distinguishes a truncated or mistyped key from an unknown one, so that scanners for leaked secrets do not cry wolf.
 */
import { createHash, randomBytes } from 'node:crypto';

/** What a key may be allowed to do. `admin` may do everything. */
export const SCOPES = ['ingest', 'read', 'sql', 'train', 'rollout', 'release', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export const KEY_PREFIX = 'troupe_';
const SHAPE = /^(troupe_([0-9A-Za-z]{11})_[0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export type NewKey = { readonly text: string; readonly lookup: string; readonly digest: Buffer };

/** A new key. The text is shown once; lookup and digest are what is kept. */
export function newKey(random: (bytes: number) => Buffer = randomBytes): NewKey {
  const lookup = base62(random(8), 11);
  const head = `${KEY_PREFIX}${lookup}_${base62(random(32), 43)}`;
  const text = `${head}${checksum(head)}`;
  return { text, lookup, digest: digestOf(text) };
}

/** The lookup of a text that has the form and checksum of a key; null for any other. */
export function lookupOf(text: string): string | null {
  const [, head, lookup, sum] = SHAPE.exec(text) ?? [];
  return head !== undefined && checksum(head) === sum ? (lookup as string) : null;
}

/** SHA-256. A secret of 256 random bits needs no slow hash: nobody can guess it. */
export const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

const checksum = (head: string): string => base62(digestOf(head).subarray(0, 4), 6);

/** The bytes as a number to the base 62, padded to `length` digits. */
function base62(bytes: Buffer, length: number): string {
  let value = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  for (; value > 0n; value /= 62n) text = DIGITS[Number(value % 62n)]! + text;
  return text.padStart(length, '0');
}
