/** What the archive holds of an event, and the same event joined again by the functions of the database. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft, Event } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { contextOf, EMPTY_CONTEXT, splitEvent } from '../../../ingest/log/split.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import '../../support/replay.ts';
import { anyCharacter } from '../../support/character.ts';
import { expectBelow } from '../../support/measured.ts';

const EPISODE = 'episode-1';

const asked = (call: number, input: readonly unknown[], more: object = {}): Event =>
  decoded('generation.requested', `asked-${call}`, { call_id: `c${call}`, input, ...more });

function decoded(name: string, id: string, data: object): Event {
  const draft = { name, source: '/test', id, time: '2026-09-10T10:00:00Z', data: { episode_id: EPISODE, ...data } };
  const { event, refusal } = decodeDraft(draft as unknown as Draft);
  if (refusal) throw new Error(JSON.stringify(refusal));
  return event;
}

const messageAt = (n: number) => ({ role: n % 2 === 0 ? 'user' : 'assistant', content: `message ${n}` });

describe('An event that is split', () => {
  it('has runs of letters that are too short for a file looked at once', () => {
    const text = `${'A'.repeat(1365)} `.repeat(10_000);
    const event = asked(0, [], { unmapped: { text } });
    const began = performance.now();
    splitEvent(event);
    expectBelow(performance.now() - began, 5000);
  });

  it('names its context, and the next call adds only the messages that are new', () => {
    const first = splitEvent(asked(0, [messageAt(0)]));
    const second = splitEvent(asked(1, [messageAt(0), messageAt(1), messageAt(2)]));
    expect(first.bodies.map(({ body }) => JSON.parse(body))).toEqual([messageAt(0)]);
    expect(second.bodies).toHaveLength(3);
    expect(second.bodies[0]).toEqual(first.bodies[0]);
    expect(second.bodies.map(({ previous }) => previous)).toEqual([
      null,
      second.bodies[0]!.hash,
      second.bodies[1]!.hash,
    ]);
    expect(JSON.parse(second.json).input).toBe(`\uFFFE@${second.bodies[2]!.hash}`);
  });

  it('has another context where the same message follows others', () => {
    const [alone, after] = [contextOf('e/e1', [messageAt(1)]), contextOf('e/e1', [messageAt(0), messageAt(1)])];
    expect(alone.hash).not.toBe(after.hash);
    expect(contextOf('e/e1', []).hash).toBe(EMPTY_CONTEXT);
  });

  it('keeps a text of 512 characters and names a longer one, counting a character outside the basic plane as one', () => {
    const of = (content: string) => splitEvent(decoded('message.sent', 'm', { message_id: 'm', content })).bodies;
    expect(of('a'.repeat(512))).toEqual([]);
    expect(of('\u{1F600}'.repeat(512))).toEqual([]);
    expect(of('a'.repeat(513)).map(({ body }) => body)).toEqual(['a'.repeat(513)]);
    expect(of('\u{1F600}'.repeat(513))).toHaveLength(1);
  });

  it('shares the beginning of a long text of a span with the next one', () => {
    const span = (text: string) =>
      splitEvent(decoded('span.recorded', 's', { format: 'otlp', item: { span: { text } } })).bodies;
    const text = Array.from({ length: 5000 }, (_, i) => String.fromCodePoint(97 + (i % 26))).join('');
    const [short, long] = [span(text), span(`${text}and more of it`)];
    expect(short.map(({ body }) => body.length)).toEqual([2048, 2048, 904]);
    expect(long.slice(0, 2)).toEqual(short.slice(0, 2));
    expect(long[2]).not.toEqual(short[2]);
    expect(span('a'.repeat(4096))).toHaveLength(1);
  });
});

describe('The id that the key of an event names', () => {
  it('is a mark in its data, wherever it stands', () => {
    const { json } = splitEvent(decoded('message.sent', 'm', { message_id: EPISODE, content: 'x' }));
    expect(JSON.parse(json)).toEqual({ content: 'x', episode_id: '\uFFFE.', message_id: '\uFFFE.' });
  });

  it('stays where it is where it is as short as a mark, or JSON writes it in other letters', () => {
    for (const episode_id of ['e1', 'a "quoted" name', 'numéro 17']) {
      const { json } = splitEvent(decoded('message.sent', 'm', { episode_id, message_id: 'm', content: 'x' }));
      expect(JSON.parse(json).episode_id).toBe(episode_id);
    }
  });
});

describe('The archive', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());

  const text = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 40 }),
    fc.constantFrom(
      EPISODE,
      `"${EPISODE}"`,
      `\\"${EPISODE}`,
      '"\uFFFE."',
      '\uFFFE@',
      '\uFFFE#0',
      '"\uFFFE#',
      '\\',
      '\u0000',
      '\u{1F600}'.repeat(600),
      'x'.repeat(9000),
    ),
    fc.nat({ max: 6000 }).map((n) => `long "${'é\n'.repeat(n)}`),
  );
  const message = fc.record(
    {
      role: fc.constantFrom('user', 'tool'),
      content: text,
      extra: fc.dictionary(fc.oneof(fc.string({ maxLength: 5 }), fc.constant(EPISODE)), text),
    },
    { requiredKeys: ['role', 'content'] },
  );

  it('P1: shows every event as it came, byte for byte, whatever texts are in it', async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 4 }), text, text, async (input, one, other) => {
        const n = run++;
        const events = [
          asked(n, input, { unmapped: { one } }),
          decoded('span.recorded', `s${n}`, { format: 'unknown', item: { one, list: [other, 1, null] } }),
          decoded('message.sent', `m${n}`, { message_id: `m${n}`, content: other }),
        ];
        await postgresLog(fresh.db).append(events);
        const { rows } = await fresh.db.query<{ json: string }>(
          `select data::text as json from troupe.events where id = any($1::text[]) order by position`,
          [events.map(({ id }) => id)],
        );
        expect(rows.map(({ json }) => json)).toEqual(events.map(({ json }) => json));
      }),
      { numRuns: 40 },
    );
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query<{ data: { input: unknown[] }; messages: unknown[] }>(
      `select e.data, coalesce((select json_agg(m.message order by m.place) from troupe.messages_of(e.key, c.context) m), '[]') as messages
       from troupe.events e join facts.calls c on c.call_id = e.data ->> 'call_id' where e.name = 'generation.requested'`,
    );
    expect(rows).toHaveLength(run);
    for (const { data, messages } of rows) expect(canonicalJson(messages)).toBe(canonicalJson(data.input));
  });

  it('grows with what is new: twice the turns are less than 2.3 times the bytes', async () => {
    const bytesOf = async (episode: string, turns: number) => {
      const input: unknown[] = [];
      for (let turn = 0; turn < turns; turn++) {
        input.push({ role: 'user', content: `${turn} ${'ab'.repeat(250)}` });
        await postgresLog(fresh.db).append([asked(turn, input, { episode_id: episode })]);
      }
      const { rows } = await fresh.db.query<{ bytes: number }>(
        `select (select sum(octet_length(data::text)) from troupe.stored_events where key = $1)::float8
              + (select sum(octet_length(body)) from troupe.bodies where key = $1)::float8 as bytes`,
        [`e/${episode}`],
      );
      return rows[0]!.bytes;
    };
    const [fewer, more] = [await bytesOf('turns-50', 50), await bytesOf('turns-100', 100)];
    expect(more / fewer).toBeLessThan(2.3);
    // 100 turns of 500 characters, each with an event of its own of about 150.
    expect(more).toBeLessThan(100 * 1000);
  });

  it('refuses an event that it has, and takes those whose key, source and id only look alike', async () => {
    const put = (key: string, source: string, id: string) =>
      fresh.db.query(
        `insert into troupe.stored_events (log, partition, position, key, source, id, name, digest, data)
         select 0, 99, (select count(*) from troupe.stored_events where partition = 99), $1, $2, $3, 'message.sent', '', '{}'`,
        [key, source, id],
      );
    await put('k|', 's', 'i');
    await put('k', '|s', 'i');
    await put('k', 's|', 'i');
    await put('ks', '', 'i');
    await put('k', 's', 'i');
    await expect(put('k', 's', 'i')).rejects.toThrow('stored_events_identity');
    await fresh.db.query('delete from troupe.stored_events where partition = 99');
  });

  it('says which body is not there, and does not show the event without it', async () => {
    await postgresLog(fresh.db).append([asked(9000, [messageAt(0), messageAt(1)], { episode_id: 'broken' })]);
    await fresh.db.query(`delete from troupe.bodies where key = 'e/broken' and previous is null`);
    await expect(fresh.db.query(`select data from troupe.events where key = 'e/broken'`)).rejects.toThrow(
      'is not in troupe.bodies',
    );
  });
});
