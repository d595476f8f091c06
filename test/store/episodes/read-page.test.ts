import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import type { Session } from '../../../store/db/pool.ts';
import { type EpisodePage, PAGE_BYTES, readEpisodePage } from '../../../store/explore/episodes/read-page.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anEpisode, at, event } from '../support/events.ts';
import { joinPages } from '../support/join-pages.ts';

let fresh: TestDatabase;
const TURNS = 40;
/** Of each turn: no two are alike. */
const text = (turn: number, size: number) => `turn ${turn} ${'ü'.repeat(size)}`;

beforeAll(async () => {
  fresh = await freshDatabase();
  const long = Array.from({ length: TURNS }, (_, turn) => {
    const input = Array.from({ length: turn + 1 }, (_, before) => ({
      role: 'user' as const,
      content: text(before, 60_000),
    }));
    const ids = { episode_id: 'long', call_id: `c${String(turn).padStart(2, '0')}`, agent_id: 'a', turn };
    return [
      event('generation.requested', { ...ids, input }, { time: at(2 * turn) }),
      event(
        'generation.completed',
        { ...ids, choices: [{ index: 0, content: `answer ${turn}` }] },
        { time: at(2 * turn + 1) },
      ),
    ];
  }).flat();
  await postgresLog(fresh.db).append([
    ...anEpisode('short'),
    event('episode.started', { episode_id: 'empty' }),
    ...long,
  ]);
  await projectAll(fresh.db);
}, 120_000);
afterAll(() => fresh.close());

async function pagesOf(id: string, bytes?: number): Promise<readonly EpisodePage[]> {
  const pages: EpisodePage[] = [];
  let after: string | undefined;
  do {
    const page = (await readEpisodePage(fresh.db, id, { after, bytes }))!;
    pages.push(page);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return pages;
}

describe('an episode, page by page', () => {
  it.each([1, 600, 2000])('is with pages of %i bytes what it is on one page', async (bytes) => {
    const [whole, ...none] = await pagesOf('short');
    expect(none).toEqual([]);
    const pages = await pagesOf('short', bytes);
    expect(pages.length).toBeGreaterThan(1);
    const { next, ...rest } = whole!;
    expect(joinPages(pages)).toEqual(rest);
  });

  it('has every entry on one page only, and what is about the episode on the first', async () => {
    const pages = await pagesOf('short', 1);
    expect(pages.map(({ conversation }) => conversation.map(({ kind }) => kind))).toEqual([
      ['message'],
      ['call'],
      ['tool_call'],
      ['call'],
    ]);
    expect(pages.map(({ feedback, agents }) => [feedback.length, agents.length])).toEqual([
      [1, 1],
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it('whose contexts have 100 MB ends a page after 2 MiB and shows each message once', async () => {
    const pages = await pagesOf('long');
    // 40 messages of 120 kB.
    expect(pages).toHaveLength(3);
    for (const page of pages) expect(JSON.stringify(page).length).toBeLessThan(PAGE_BYTES + 200_000);
    const { conversation } = joinPages(pages);
    expect(conversation).toHaveLength(TURNS);
    for (const [turn, entry] of conversation.entries())
      expect(entry).toMatchObject({
        kind: 'call',
        turn,
        prompt_messages: turn + 1,
        prompt: [{ role: 'user', text: text(turn, 60_000) }],
        candidates: [{ text: `answer ${turn}` }],
      });
  });

  it('is read whole for its first page only, and again once it has changed', async () => {
    let whole = 0;
    const counting: Session = {
      ...fresh.db,
      query: (sql, ...rest) => {
        if (sql.includes('md5(')) whole++;
        return fresh.db.query(sql, ...rest);
      },
    };
    const first = (await readEpisodePage(counting, 'long', { bytes: 100_000 }))!;
    const once = whole;
    expect(once).toBeGreaterThan(0);
    const second = (await readEpisodePage(counting, 'long', { bytes: 100_000, after: first.next! }))!;
    expect([whole, second.conversation.length > 0]).toEqual([once, true]);
    const ids = { episode_id: 'long', message_id: 'late' };
    await postgresLog(fresh.db).append([event('message.sent', { ...ids, content: 'late' }, { time: at(1000) })]);
    await projectAll(fresh.db);
    const pages = await pagesOf('long');
    expect(pages.at(-1)!.conversation.at(-1)).toMatchObject({ kind: 'message', text: 'late' });
    await readEpisodePage(counting, 'long', { after: first.next! });
    expect(whole).toBe(2 * once);
  });

  it('without anything in it has one empty page, and one that is not there has none', async () => {
    expect(await readEpisodePage(fresh.db, 'empty')).toMatchObject({ conversation: [], next: null, truncated: [] });
    expect(await readEpisodePage(fresh.db, 'nobody')).toBeUndefined();
  });

  it('refuses a place that no page of it gave', async () => {
    const [first] = await pagesOf('short', 1);
    await expect(readEpisodePage(fresh.db, 'long', { after: first!.next! })).rejects.toThrow(
      /after should be the `next` of an earlier page of this episode/,
    );
  });
});

it('a list that has more than 2 MiB is cut and named', async () => {
  const many = Array.from({ length: 30 }, (_, i) =>
    event('feedback.recorded', {
      feedback_id: `f${i}`,
      target: { kind: 'episode', episode_id: 'empty' },
      kind: 'label',
      name: 'note',
      label: 'x',
      explanation: 'x'.repeat(100_000),
    }),
  );
  await postgresLog(fresh.db).append(many);
  await projectAll(fresh.db);
  const page = (await readEpisodePage(fresh.db, 'empty'))!;
  expect(page.truncated).toEqual(['feedback']);
  expect(page.feedback).toHaveLength(20);
});
