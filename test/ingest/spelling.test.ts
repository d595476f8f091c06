import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../ingest/events/json.ts';
import { createRedactor } from '../../ingest/events/redact.ts';
import { keepSpelling, parseWritten, writtenArguments, writtenJson } from '../../ingest/events/spelling.ts';

const read = (text: string): unknown => {
  const parsed = parseWritten(text);
  if ('refusal' in parsed) throw new Error(JSON.stringify(parsed.refusal));
  return parsed.value;
};

describe('JSON that is written as its source wrote it', () => {
  it.each([
    '{"b": 1, "a": {"z": 1.0, "y": [1e5, 1E5, 1.50, -0, -0.0]}}',
    '{"id": 9007199254740993, "list": [12345678901234567890, -9007199254740993]}',
    '{"10": 1, "9": 2, "x": {"b": null, "1": true, "0": "é\\n"}}',
    '{"x": 1234567.123456789012, "y": 0.0000001, "z": 1.10}',
    '{"__proto__": {"b": 1.0, "a": 2}, "toString": 1.0}',
    '[[], {}, "1.0", {"a": "9007199254740993"}]',
  ])('keeps the order and the numbers of %s', (text) => {
    expect(writtenArguments(read(text))).toBe(text);
    expect(writtenJson(read(text.replaceAll(/(?<=[:,]) /g, '')))).toBe(text.replaceAll(/(?<=[:,]) /g, ''));
  });

  it('takes the last of a member that comes twice, in the place of the first', () => {
    expect(writtenArguments(read('{"a": 1.0, "b": 2, "a": 3}'))).toBe('{"a": 3, "b": 2}');
    expect(writtenArguments(read('{"a": {"x": 1.0}, "a": {"x": 1}}'))).toBe('{"a": {"x": 1}}');
  });

  it('leaves the value itself as JSON.parse reads it, and its canonical JSON, of which ids are made', () => {
    const text = '{"b":1.0,"a":[1e2]}';
    expect(read(text)).toEqual(JSON.parse(text));
    expect(canonicalJson(read(text))).toBe('{"a":[100],"b":1}');
  });

  it('keeps what a redaction does not change', () => {
    const value = read('{"b": 1.0, "key": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", "a": [2.0]}');
    const clean = writtenArguments(createRedactor().value(value));
    expect(clean).toMatch(/^\{"b": 1\.0, "key": "\[redacted:[^\]]+\]", "a": \[2\.0\]\}$/);
  });

  it('gives back any JSON that was written with a space after commas and colons', () => {
    const number = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => JSON.stringify(one)),
      fc.integer().map(String),
      fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
      fc.stringMatching(/^-?(0|[1-9]\d{0,8})(\.\d{1,12})?([eE][+-]?\d)?$/),
    );
    const { json } = fc.letrec<{ json: string }>((tie) => ({
      json: fc.oneof(
        { depthSize: 'small' },
        number,
        fc.string({ unit: 'binary' }).map((one) => JSON.stringify(one)),
        fc.constantFrom('true', 'false', 'null'),
        fc.array(tie('json')).map((items) => `[${items.join(', ')}]`),
        fc
          .uniqueArray(fc.tuple(fc.oneof(fc.string(), fc.nat({ max: 20 }).map(String)), tie('json')), {
            selector: ([name]) => name,
          })
          .map((members) => `{${members.map(([name, one]) => `${JSON.stringify(name)}: ${one}`).join(', ')}}`),
      ),
    }));
    fc.assert(
      fc.property(json, (inside) => {
        const text = `[${inside}]`;
        expect(writtenArguments(read(text))).toBe(text);
      }),
      { numRuns: 40 },
    );
  });

  it('knows nothing of a text that was not looked at', () => {
    const value: unknown = JSON.parse('{"b":1.0}');
    expect(writtenArguments(value)).toBe('{"b": 1}');
    keepSpelling(value, '{"b":1.0}');
    expect(writtenArguments(value)).toBe('{"b": 1.0}');
  });
});
