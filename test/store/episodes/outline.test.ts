import { describe, expect, it } from 'vitest';
import { inOrder, type Link, outline, type Thing } from '../../../store/explore/episodes/outline.ts';

const hour = (n: number) => new Date(Date.UTC(2026, 0, 1, n)).toISOString();
const message = (id: string, seq: number | null, at: string | null): Thing => ({
  kind: 'message',
  id,
  seq,
  at,
  bytes: 1,
  texts: [],
  context: null,
});
const ids = (things: readonly Thing[]) => inOrder(things).map(({ id }) => id);

describe('what happened in an episode', () => {
  it('follows the native order where everything has one, whatever the times say', () => {
    expect(ids([message('b', 2, hour(1)), message('a', 1, hour(2))])).toEqual(['a', 'b']);
    expect(ids([message('b', null, hour(1)), message('a', 1, hour(2)), message('c', null, null)])).toEqual([
      'b',
      'a',
      'c',
    ]);
  });

  it('follows times of any precision', () => {
    const times = ['2026-01-01T00:00:05Z', '2026-01-01T00:00:05.1Z', '2026-01-01T00:00:05.12Z', '2026-01-01T00:00:06Z'];
    expect(ids(times.map((time) => message(time, null, time)).reverse())).toEqual(times);
  });
});

/** Calls whose contexts are these bodies: equal beginnings are one chain, as they are stored. */
function calls(contexts: Readonly<Record<string, readonly string[]>>) {
  const links = new Map<string, Link>();
  const things = Object.entries(contexts).map(([id, bodies], seq): Thing => {
    let previous: string | null = null;
    for (const body of bodies) {
      const hash: string = `${previous ?? ''}/${body}`;
      links.set(hash, { hash, previous, digest: body, bytes: body.length, names: [] });
      previous = hash;
    }
    return { kind: 'call', id, seq, at: null, bytes: 10, texts: [], context: previous };
  });
  return outline(things, links).map(({ id, prompt, promptMessages, bytes }) => ({
    id,
    prompt: prompt.map((hash) => links.get(hash)!.digest),
    promptMessages,
    bytes,
  }));
}

describe('what is new in a prompt', () => {
  it('is what no context before it had, as often as this one holds it', () => {
    expect(calls({ c1: ['go'], c2: ['go', 'go'], c3: ['go', 'go', 'stop'] })).toEqual([
      { id: 'c1', prompt: ['go'], promptMessages: 1, bytes: 12 },
      { id: 'c2', prompt: ['go'], promptMessages: 2, bytes: 12 },
      { id: 'c3', prompt: ['stop'], promptMessages: 3, bytes: 14 },
    ]);
  });

  it('is the changed message alone where a context begins anew and repeats the others', () => {
    expect(calls({ c1: ['system A', 'hi', 'there'], c2: ['system B', 'hi', 'there', 'hi'] })).toMatchObject([
      { prompt: ['system A', 'hi', 'there'] },
      { prompt: ['system B', 'hi'], promptMessages: 4 },
    ]);
  });

  it('is nothing where a call reads what another read', () => {
    expect(calls({ c1: ['a', 'b'], c2: ['a', 'b'], c3: ['a'] }).map(({ prompt }) => prompt)).toEqual([
      ['a', 'b'],
      [],
      [],
    ]);
  });
});

it('a message counts with the long texts that it names, piece by piece', () => {
  const link = (
    hash: string,
    previous: string | null,
    bytes: number,
    names: readonly string[] = [],
  ): [string, Link] => [hash, { hash, previous, digest: hash, bytes, names }];
  const links = new Map([
    link('m', null, 5, ['t2', 'u']),
    link('t2', 't1', 100),
    link('t1', null, 200),
    link('u', null, 7),
  ]);
  const call: Thing = { kind: 'call', id: 'c', seq: null, at: null, bytes: 1, texts: [], context: 'm' };
  expect(outline([call], links)).toMatchObject([{ bytes: 1 + 5 + 300 + 7, promptMessages: 1 }]);
});
