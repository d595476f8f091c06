/** JSON that is sent to us, in which no object may have a member twice: `JSON.parse` takes the last, other readers the first. */
import { endOfString, parseRecord } from './json.ts';

const QUOTE = 34;
const COLON = 58;

/** As `parseRecord`; an object with a member that comes twice is refused. Never throws. */
export function parseBody(text: string): ReturnType<typeof parseRecord> {
  const parsed = parseRecord(text);
  if ('refusal' in parsed || membersOf(parsed.value) === colonsIn(text)) return parsed;
  const expected = 'each member of an object once';
  return { refusal: { code: 'bad_json', field: '', expected, got: `${JSON.stringify(memberTwice(text))} twice` } };
}

/** Members of all objects in a value, at any depth. */
function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) for (const one of value) count += typeof one === 'object' ? membersOf(one) : 0;
  else
    for (const name in value) {
      const member = (value as Record<string, unknown>)[name];
      count += typeof member === 'object' ? 1 + membersOf(member) : 1;
    }
  return count;
}

/** Colons outside of texts: of JSON, one for each member. */
function colonsIn(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) i = endOfString(text, i);
    else if (c === COLON) count++;
  }
  return count;
}

/** The first member of JSON that its object has already; empty where there is none. */
function memberTwice(text: string): string {
  const open: Set<string>[] = [];
  let last = '';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 123 || c === 91) open.push(new Set());
    else if (c === 125 || c === 93) open.pop();
    else if (c === QUOTE) {
      const end = endOfString(text, i);
      last = text.slice(i, end + 1);
      i = end;
    } else if (c === COLON) {
      const name = JSON.parse(last) as string;
      if (open.at(-1)?.has(name)) return name.slice(0, 60);
      open.at(-1)?.add(name);
    }
  }
  return '';
}
