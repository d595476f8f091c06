import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Refusal } from '../../errors.ts';
import {
  type DecodeResult,
  decodeDraft,
  decodeEnvelope,
  decodeText,
  encodeEnvelope,
  normaliseTime,
} from '../../ingest/events/decode.ts';
import { CANONICAL, type Draft } from '../../ingest/events/events.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { EVENT_NAMES } from '../../ingest/events/upcast/catalogue.ts';
import { anyCharacter } from '../support/character.ts';

type Json = Record<string, unknown>;

const envelope = (type: string, data: unknown, more: Json = {}): Json => ({
  specversion: '1.0',
  id: 'i',
  source: '/s',
  type: `troupe.${type}.v1`,
  datacontenttype: 'application/json',
  data,
  ...more,
});
const refusalOf = (decoded: DecodeResult): Refusal => {
  if (!decoded.refusal) throw new Error(`it was taken: ${decoded.event.json}`);
  return decoded.refusal;
};
const eventOf = (decoded: DecodeResult) => {
  if (!decoded.event) throw new Error(JSON.stringify(decoded.refusal));
  return decoded.event;
};
const completed = (choice: Json, more: Json = {}) =>
  envelope('generation.completed', { episode_id: 'e', call_id: 'c', choices: [{ index: 0, ...choice }], ...more });
const feedback = (data: Json) =>
  envelope('feedback.recorded', {
    feedback_id: 'f',
    target: { kind: 'episode', id: 'e' },
    kind: 'execution',
    name: 'tests',
    ...data,
  });

describe('decoding of events', () => {
  it('says of an unknown type how many there are and where they are listed, not all of them', () => {
    const { refusal } = decodeEnvelope(envelope('task.defined', {}, { type: 'troupe.task.undefined.v1' }));
    expect(refusal!.expected).toBe(
      `one of the ${EVENT_NAMES.length} event types of docs/events.md, such as troupe.episode.started.v1`,
    );
  });

  it('refuses with the code, the field, what was expected and what came', () => {
    const long = 'x'.repeat(513);
    const cases: [unknown, string, string][] = [
      [7, 'bad_shape', ''],
      [[], 'bad_shape', ''],
      [{ specversion: '0.3' }, 'bad_type', 'specversion'],
      [{}, 'bad_type', 'type'],
      [{ type: 'troupe.task.defined.v9' }, 'unknown_version', 'type'],
      [{ type: '__proto__' }, 'unknown_event', 'type'],
      [envelope('task.defined', { task_id: 't' }, { id: '' }), 'bad_identifier', 'id'],
      [envelope('task.defined', { task_id: 't' }, { id: 'a\u0000' }), 'bad_identifier', 'id'],
      [envelope('task.defined', { task_id: 't' }, { source: 5 }), 'bad_identifier', 'source'],
      [envelope('task.defined', { task_id: 't' }, { id: 'é'.repeat(301) }), 'bad_identifier', 'id'],
      [envelope('task.defined', { task_id: 't' }, { time: 'yesterday' }), 'bad_time', 'time'],
      [envelope('task.defined', { task_id: 't' }, { time: 5 }), 'bad_time', 'time'],
      [envelope('task.defined', {}), 'bad_shape', 'data.task_id'],
      [envelope('task.defined', { task_id: 5 }), 'bad_type', 'data.task_id'],
      [envelope('task.defined', { task_id: '' }), 'bad_shape', 'data.task_id'],
      [envelope('task.defined', { task_id: long }), 'bad_shape', 'data.task_id'],
      [envelope('task.defined', { task_id: '€'.repeat(171) }), 'bad_identifier', 'data.task_id'],
      [envelope('task.defined', { task_id: '\uD83D' }), 'bad_identifier', 'data.task_id'],
      [envelope('task.defined', { task_id: 't', tags: { 'a\u0000': 1 } }), 'bad_identifier', 'data.tags.a\uFFFE0000'],
      [
        envelope('message.sent', { episode_id: 'e', message_id: 'm', to: ['a', '\u0000'] }),
        'bad_identifier',
        'data.to[1]',
      ],
      [envelope('episode.finished', { episode_id: 'e', outcome: 'won' }), 'bad_shape', 'data.outcome'],
      [completed({ index: -1 }), 'bad_shape', 'data.choices[0].index'],
      [completed({ index: 2 ** 31 }), 'bad_shape', 'data.choices[0].index'],
      [completed({ token_ids: [2 ** 31] }), 'bad_shape', 'data.choices[0].token_ids[0]'],
      [completed({ logprobs: [-1e39] }), 'bad_shape', 'data.choices[0].logprobs[0]'],
      [completed({}, { turn: 3e9 }), 'bad_shape', 'data.turn'],
      [completed({}, { seq: 1e300 }), 'bad_shape', 'data.seq'],
      [completed({ token_ids: [1, 2], logprobs: [-1] }), 'bad_shape', 'data.choices[0].logprobs'],
      [completed({ token_ids: [1, 2], loss_mask: [1, 1, 0] }), 'bad_shape', 'data.choices[0].loss_mask'],
      [completed({}, { choices: [{ index: 0 }, { index: 0 }] }), 'bad_shape', 'data.choices[1].index'],
      [
        completed(
          {},
          {
            choices: [
              { index: 0, chosen: true },
              { index: 1, chosen: true },
            ],
          },
        ),
        'bad_shape',
        'data.choices[1].chosen',
      ],
      [feedback({ matrix: { programs: [{}, {}], tests: [{}], pass: [[1]] } }), 'bad_shape', 'data.matrix.pass'],
      [
        feedback({ matrix: { programs: [{}, {}], tests: [{}], pass: [[1], [1, 0]] } }),
        'bad_shape',
        'data.matrix.pass[1]',
      ],
      [feedback({ matrix: { programs: [{}], tests: [{}], pass: [[2]] } }), 'bad_shape', 'data.matrix.pass[0][0]'],
      [
        feedback({ matrix: { programs: [{ step_id: '\uDE00' }], tests: [], pass: [[]] } }),
        'bad_identifier',
        'data.matrix.programs[0].step_id',
      ],
      [feedback({ target: { kind: 'episode' } }), 'bad_reference', 'data.target'],
      [feedback({ target: { kind: 'foreign', episode_id: 'e' } }), 'bad_reference', 'data.target.id'],
      [envelope('job.progressed', { job_id: 'j', step: 0, metrics: { [long]: 1 } }), 'bad_identifier', 'data.metrics'],
    ];
    for (const [value, code, field] of cases) {
      const refusal = refusalOf(decodeEnvelope(value));
      expect([refusal.code, refusal.field], JSON.stringify(value).slice(0, 200)).toEqual([code, field]);
      expect(refusal.expected).not.toBe('');
      expect(refusal.got).not.toBe('');
      expect(refusal.got.length).toBeLessThanOrEqual(80);
    }
  });

  it('P43: refuses in the raw text what parsing would lose', () => {
    const text = (value: string) =>
      `{"id":"i","source":"s","type":"troupe.task.defined.v1","data":{"task_id":"t","tests":${value}}}`;
    const codeOf = (value: string) => decodeText(text(value)).refusal?.code ?? null;
    expect(codeOf('['.repeat(200) + ']'.repeat(200))).toBe('too_deep');
    expect(codeOf('9007199254740993')).toBe('bad_number');
    expect(codeOf('1e400')).toBe('bad_number');
    expect(codeOf('NaN')).toBe('bad_json');
    expect(eventOf(decodeText(text('-0'))).json).toBe('{"task_id":"t","tests":-0}');
    expect(eventOf(decodeText(text('"9007199254740993"'))).json).toContain('"9007199254740993"');
  });

  it('refuses from a program what is not JSON instead of writing something else', () => {
    const draft = (tests: unknown) =>
      decodeDraft({ name: 'task.defined', source: 's', id: 'i', time: null, data: { task_id: 't', tests } });
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(refusalOf(draft(Number.NaN))).toMatchObject({ code: 'bad_number', field: 'data.tests' });
    expect(refusalOf(draft({ at: new Date(0) }))).toMatchObject({ code: 'bad_type', field: 'data.tests.at' });
    expect(refusalOf(draft(10n)).code).toBe('bad_type');
    expect(refusalOf(draft(deep)).code).toBe('too_deep');
  });

  it('takes an event of the greatest depth from a program only if its own text would be taken', () => {
    const nested = (levels: number) => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    for (const levels of [125, 126, 127]) {
      const decoded = decodeDraft({
        name: 'task.defined',
        source: 's',
        id: 'i',
        time: null,
        data: { task_id: 't', tests: nested(levels) },
      });
      const text = JSON.stringify(envelope('task.defined', { task_id: 't', tests: nested(levels) }));
      expect(decoded.refusal?.code).toBe(decodeText(text).refusal?.code);
    }
  });

  it('P43: keeps U+0000 and lone surrogates in text and tool output, also under keys that are called name or id', () => {
    const data = {
      episode_id: 'e',
      tool_call_id: 't',
      status: 'ok',
      output: { id: '\u0000', name: ['\uD83D', { key: '\uFFFE' }] },
    };
    const event = eventOf(decodeEnvelope(envelope('tool.returned', data)));
    expect(event.json.isWellFormed()).toBe(true);
    expect(event.json).not.toMatch(/\\u0000|\\ud83d/);
    expect(event.data).toMatchObject({ flags: ['escaped_text'] });
    expect(encodeEnvelope(event)).toEqual(envelope('tool.returned', data));
  });

  it('P43: gives back every event as it was sent', () => {
    const strange = fc.constantFrom('\u0000', '\uFFFE', '\uD83D', '\uDE00', '😀', '\uFFFE0041', 'escaped_text');
    const strangeText = fc.array(fc.oneof(strange, fc.string({ unit: anyCharacter }))).map((parts) => parts.join(''));
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
    const free = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 3 },
        strangeText,
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.constant(null),
        fc.boolean(),
        fc.array(tie('any'), { maxLength: 3 }),
        fc.dictionary(fc.oneof(name, fc.constantFrom('__proto__', 'constructor', 'toString', 'name', '')), tie('any'), {
          maxKeys: 3,
        }),
      ),
    })).any;
    const flags = fc.array(fc.oneof(strangeText, fc.constant('escaped_text')), { minLength: 1, maxLength: 3 });
    const data = fc.record(
      {
        episode_id: name,
        tool_call_id: name,
        status: fc.constant('ok'),
        output: free,
        unmapped: fc.dictionary(name, free, { maxKeys: 3 }),
        flags,
        own_field: free,
      },
      { requiredKeys: ['episode_id', 'tool_call_id', 'status'] },
    );
    const extensions = fc.record(
      { subject: strangeText, traceparent: fc.constant('00-1'), sequence: fc.integer() },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        data,
        extensions,
        fc.option(fc.constant('2026-09-10T10:00:00.000001Z'), { nil: undefined }),
        (sent, extra, time) => {
          const value = envelope('tool.returned', sent, { ...extra, ...(time === undefined ? {} : { time }) });
          const event = eventOf(decodeEnvelope(value));
          expect(event.json.isWellFormed() && !event.json.includes('\\u0000')).toBe(true);
          expect(canonicalJson(encodeEnvelope(event))).toBe(canonicalJson(value));
          const stored = { ...event, data: JSON.parse(event.json) };
          expect(canonicalJson(encodeEnvelope(stored))).toBe(canonicalJson(value));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('takes keys such as __proto__ and constructor as keys and nothing else', () => {
    const text =
      '{"id":"i","source":"s","type":"troupe.task.defined.v1","data":{"task_id":"t","__proto__":{"polluted":1},"tags":{"constructor":{"prototype":{"polluted":1}},"x":"\\u0000"}}}';
    const event = eventOf(decodeText(text));
    expect(({} as Json).polluted).toBeUndefined();
    expect(event.json).toContain('"__proto__":{"polluted":1}');
    expect(canonicalJson((encodeEnvelope(event) as Json).data)).toBe(canonicalJson(JSON.parse(text).data));
  });

  it('P5: has one digest for equal content whatever the order of keys, and another for any other content', () => {
    const digest = (data: Json, time: string | null = null) =>
      eventOf(decodeEnvelope(envelope('task.defined', data, time === null ? {} : { time }))).digest;
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme', minLength: 1 }), fc.jsonValue(), { maxKeys: 5 }),
        fc.jsonValue(),
        (tags, tests) => {
          const [a, b] = [
            { task_id: 't', tags, tests },
            { tests, tags: Object.fromEntries(Object.entries(tags).reverse()), task_id: 't' },
          ];
          expect(digest(a)).toBe(digest(b));
          expect(digest({ ...a, one_more: null })).not.toBe(digest(a));
          expect(digest({ ...a, tests: [tests] })).not.toBe(digest(a));
        },
      ),
    );
    expect(digest({ task_id: 't' }, '2026-01-01T00:00:00Z')).toBe(
      digest({ task_id: 't' }, '2026-01-01T01:00:00.000+01:00'),
    );
    expect(digest({ task_id: 't' }, '2026-01-01T00:00:00Z')).not.toBe(digest({ task_id: 't' }));
  });

  it('brings times to UTC with six digits', () => {
    const cases: [string, string | undefined][] = [
      ['2026-09-10T10:00:00Z', '2026-09-10T10:00:00.000000Z'],
      ['2026-09-10t10:00:00.5z', '2026-09-10T10:00:00.500000Z'],
      ['2026-09-10 10:00:00.123456789+02:00', '2026-09-10T08:00:00.123456Z'],
      ['2024-02-29T23:59:59-01:00', '2024-03-01T00:59:59.000000Z'],
      ['1969-12-31T23:59:59.000001Z', '1969-12-31T23:59:59.000001Z'],
      ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000000Z'],
      ['2026-02-29T00:00:00Z', undefined],
      ['2026-04-31T00:00:00Z', undefined],
      ['2026-13-01T00:00:00Z', undefined],
      ['2026-00-10T00:00:00Z', undefined],
      ['2026-01-01T24:00:00Z', undefined],
      ['2026-01-01T00:60:00Z', undefined],
      ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000000Z'],
      ['2017-01-01T01:59:60.5+02:00', '2017-01-01T00:00:00.500000Z'],
      ['2016-12-31T23:58:60Z', undefined],
      ['2017-01-01T01:59:60Z', undefined],
      ['9999-12-31T23:59:60Z', undefined],
      ['0000-01-01T00:00:00Z', undefined],
      ['0001-01-01T00:00:00+01:00', undefined],
      ['9999-12-31T23:59:59-01:00', undefined],
      ['294277-01-01T00:00:00Z', undefined],
      ['2026-01-01T00:00:00', undefined],
      ['2026-01-01T00:00:00+25:00', undefined],
      ['2026-01-01', undefined],
      ['1757498400', undefined],
    ];
    for (const [text, time] of cases) expect(normaliseTime(text), text).toBe(time);
  });

  it('reads a time the same whichever time it read before', () => {
    const second = fc.constantFrom(
      '2026-09-10T10:00:00',
      '2026-09-10t10:00:00',
      '1969-12-31T23:59:59',
      '2026-02-30T00:00:00',
    );
    const rest = fc.oneof(
      fc.constantFrom('Z', 'z', '', '.Z', '.5', '+02:00', '.25-01:00', 'ZZ', '.1234567891Z', ' Z'),
      fc.nat(999_999_999).map((fraction) => `.${fraction}Z`),
    );
    const afresh = (text: string): string | undefined => {
      normaliseTime('2000-01-01T00:00:00Z');
      return normaliseTime(text);
    };
    fc.assert(
      fc.property(fc.array(fc.tuple(second, rest), { minLength: 2, maxLength: 6 }), (times) => {
        const texts = times.map((parts) => parts.join(''));
        expect(texts.map(normaliseTime)).toEqual(texts.map(afresh));
      }),
    );
  });

  it('takes the text that a draft carries for the data that it was written of, and for no others', () => {
    const data = { task_id: 't', query: 'before' };
    const bare: Draft = { name: 'task.defined', source: '/s', id: 'i', time: null, data };
    const carrying: Draft = { ...bare, [CANONICAL]: { of: data, json: canonicalJson(data) } };
    expect(decodeDraft(carrying)).toEqual(decodeDraft(bare));
    const changed = { ...data, query: 'after' };
    expect(decodeDraft({ ...carrying, data: changed })).toEqual(decodeDraft({ ...bare, data: changed }));
    // As anybody may send it.
    const sent = JSON.parse(JSON.stringify({ ...envelope('task.defined', changed), CANONICAL: carrying[CANONICAL] }));
    expect(eventOf(decodeEnvelope(sent)).json).toContain('after');
  });

  it('takes an unknown time as null, whether it is null or absent', () => {
    for (const more of [{}, { time: null }])
      expect(eventOf(decodeEnvelope(envelope('task.defined', { task_id: 't' }, more))).time).toBeNull();
  });
});
