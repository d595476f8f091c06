import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft, Event } from '../../ingest/events/events.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { createRedactor } from '../../ingest/events/redact.ts';
import { ownRules } from '../../ingest/events/redact-own.ts';
import { markOf } from '../../ingest/events/redact-rules.ts';
import { expectBelow } from '../support/measured.ts';
import { CANARIES, IN_PLACE } from './support/canaries.ts';

const redactor = createRedactor();
const secrets = Object.values(CANARIES);

function eventOf(data: object, { name = 'tool.returned', id = 'i' } = {}): Event {
  const draft = { name, source: '/s', id, time: null, data };
  const { event, refusal } = decodeDraft(draft as unknown as Draft);
  if (refusal) throw new Error(JSON.stringify(refusal));
  return event;
}
const returned = (output: unknown) => eventOf({ episode_id: 'e', tool_call_id: 't', status: 'ok', output });

describe('redaction', () => {
  it.each(Object.entries(CANARIES))(
    'finds %s bare, quoted, coloured, in JSON in a text, and in a URL',
    (rule, secret) => {
      const mark = markOf(rule);
      expect(redactor.text(secret)).toBe(mark);
      expect(redactor.text(`key ${secret}.`)).toMatch(/^key \[redacted:\w+\]\.?$/);
      expect(redactor.text(`\u001b[31m${secret}\u001b[0m`)).toBe(`\u001b[31m${mark}\u001b[0m`);
      const nested = JSON.stringify({ env: `A=1\n${secret}\n`, n: 1 });
      expect(JSON.parse(redactor.text(nested))).toEqual({ env: `A=1\n${mark}\n`, n: 1 });
      expect(JSON.parse(redactor.text(JSON.stringify({ more: nested }))).more).not.toContain(secret.slice(8, 24));
      expect(redactor.value({ [secret]: [secret], n: 1 })).toEqual({ [mark]: [mark], n: 1 });
    },
  );

  it.each(IN_PLACE)('finds %s by its surroundings and leaves them', (rule, text, secret) => {
    expect(redactor.text(text)).toBe(text.replace(secret, markOf(rule)));
  });

  it('takes what has no shape out of the arguments that tau2-bench hands to its models, and nothing else', () => {
    const known = {
      temperature: 0,
      seed: 3,
      stop: ['###'],
      reasoning_effort: 'high',
      api_base: 'http://gpu-1:8000/v1',
    };
    const own = { api_key: 'hunter2', extra_headers: { 'X-Team': ['blue'] }, timeout: 60 };
    const mark = markOf('llm_args');
    const hidden = { api_key: mark, extra_headers: { 'X-Team': [mark] }, timeout: 60 };
    const info = (args: object) => ({ info: { agent_info: { llm: 'm', llm_args: args }, note: 'api_key of hunter2' } });
    expect(redactor.value(info({ ...known, ...own }))).toEqual(info({ ...known, ...hidden }));
    expect(redactor.value(info({ ...known, ...hidden }))).toEqual(info({ ...known, ...hidden }));
    expect(redactor.found()).toMatchObject({ llm_args: expect.any(Number) });
  });

  it('leaves prose, numbers, ids and code as they are', () => {
    for (const text of [
      'The task-oriented risk-averse desk-bound agent asks for a bearer of responsibilities and 1234567890123456.',
      'sk-fading-circle and sk-learn-contrib-something are no keys; sha 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      '550e8400-e29b-41d4-a716-446655440000 call_0aB1cD2eF3gH4iJ5kL6mN7oP chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVw',
      'https://example.org:8080/a?b=c@d mailto:ann@example.org ssh://git@example.org/x.git http://[::1]:80/@x',
      'const password = readPassword(); export API_KEY=$API_KEY; -----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
      'Bearer tokens are described in RFC 6750; authorization: required; the secret key is 42',
      'eyJ is how base64 of {" begins; AKIA is a prefix; hf_hub_download(repo_id) and npm_config_registry',
    ]) {
      expect(redactor.text(text)).toBe(text);
      const event = returned(text);
      expect(redactor.event(event)).toBe(event);
    }
  });

  it('counts in the event what each rule found, never the value, and changes nothing the second time', () => {
    const piece = fc.oneof(
      fc.constantFrom(...secrets),
      fc.string({ maxLength: 8 }),
      fc.constantFrom('\u0000', '://a:', '@'),
    );
    const apart = fc.constantFrom(' ', '\n', '"', '=', '/', '\\n');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), apart, fc.boolean(), (pieces, between, nest) => {
        const text = pieces.join(between);
        const event = returned(nest ? { args: JSON.stringify({ text }) } : text);
        const once = redactor.event(event);
        const whole = pieces.filter((one) => secrets.includes(one));
        for (const secret of whole) expect(once.json).not.toContain(secret.slice(10, 26));
        expect(redactor.event(once)).toBe(once);
        expect(redactor.event(redactor.event(event))).toEqual(once);
        const marks = once.json.match(/\[redacted:/g)?.length ?? 0;
        const counted = (once.data as { redactions?: Record<string, number> }).redactions ?? {};
        expect(Object.values(counted).reduce((a, b) => a + b, 0)).toBe(marks);
        // What was redacted is accepted again as the same event.
        const again = decodeDraft({ ...once, data: JSON.parse(once.json) } as unknown as Draft);
        if (!once.json.includes('escaped_text')) expect(again.event?.digest).toBe(once.digest);
      }),
    );
  });

  it('takes the token ids of a candidate whose text held a secret, and no others', () => {
    const choice = (index: number, content: string) => ({ index, content, token_ids: [1, 2], logprobs: [-1, -2] });
    const event = eventOf(
      { episode_id: 'e', call_id: 'c', choices: [choice(0, 'fine'), choice(1, `my key ${secrets[0]}`)] },
      { name: 'generation.completed' },
    );
    expect(redactor.event(event).data).toEqual({
      episode_id: 'e',
      call_id: 'c',
      choices: [choice(0, 'fine'), { index: 1, content: 'my key [redacted:anthropic_api_key]' }],
      flags: ['redacted_tokens'],
      redactions: { anthropic_api_key: 1 },
    });
  });

  it('an id with the shape of a secret is refused without quoting it', () => {
    for (const draft of [
      { id: secrets[0], data: { task_id: 't' } },
      { id: 'i', data: { task_id: secrets[1] } },
    ]) {
      const { refusal } = decodeDraft({ name: 'task.defined', source: '/s', time: null, ...draft } as Draft);
      expect(refusal?.code).toBe('bad_identifier');
      expect(JSON.stringify(refusal)).not.toMatch(/sk-/);
    }
  });

  it('takes time in proportion to the text, whatever the text', () => {
    const hostile = [
      'sk-',
      'eyJ',
      '://a:',
      'Bearer ',
      '-----BEGIN PRIVATE KEY-----',
      'secret key = ',
      'SG.',
      'AKIA',
      'xox',
    ];
    for (const start of hostile) {
      const text = `${start.repeat(20_000)}${'a-'.repeat(50_000)}`;
      const began = performance.now();
      redactor.text(text);
      expectBelow(performance.now() - began, 2000, start);
    }
  });

  it('reads a run that holds the beginning of a token many times once', () => {
    const began = performance.now();
    expect(redactor.text('-eyJ'.repeat(250_000))).toBe('-eyJ'.repeat(250_000));
    expectBelow(performance.now() - began, 5000);
    expect(redactor.text(`x=a-eyJ-eyJhbGciOiJ9.b.c`)).toBe('x=a-[redacted:jwt]');
  });

  it('numbers keys that became one in time in proportion to their number', () => {
    const keys = Array.from({ length: 30_000 }, (_, i) => `sk-ant-api03-${String(i).padStart(24, '0')}`);
    const began = performance.now();
    const names = Object.keys(redactor.value(Object.fromEntries(keys.map((key) => [key, 1]))) as object);
    expectBelow(performance.now() - began, 5000);
    const mark = markOf('anthropic_api_key');
    expect([new Set(names).size, names[0], names[1], names.at(-1)]).toEqual([
      30_000,
      mark,
      `${mark}#2`,
      `${mark}#30000`,
    ]);
  });
});

describe('rules of the user', () => {
  it('redact what they name, everywhere', () => {
    const own = createRedactor(ownRules({ customer: 'cust-[0-9]{6}', mail: String.raw`[a-z]+@example\.org` }));
    const event = own.event(returned({ 'cust-123456': 'ann@example.org and cust-654321' }));
    expect(JSON.parse(event.json)).toMatchObject({
      output: { '[redacted:customer]': '[redacted:mail] and [redacted:customer]' },
      redactions: { customer: 2, mail: 1 },
    });
    expect(own.event(event)).toBe(event);
    expect(canonicalJson(own.value({ a: 'cust-12345' }))).toBe('{"a":"cust-12345"}');
  });

  it('are refused where they could take for ever, match nothing, or are no patterns', () => {
    for (const rules of [
      { a: '(a+)\\1' },
      { a: '(?=x)y' },
      { a: '(' },
      { a: 'x*' },
      { 'A b': 'x' },
      { a: 'y'.repeat(501) },
    ]) {
      expect(() => ownRules(rules as never), JSON.stringify(rules)).toThrow(/The rule "[^"]+" of the setting redact/);
    }
    const slow = createRedactor(ownRules({ a: '(x+x+)+y' }));
    const began = performance.now();
    slow.text('x'.repeat(20_000));
    expectBelow(performance.now() - began, 2000);
  });
});
