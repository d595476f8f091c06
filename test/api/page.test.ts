import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Event } from '../../ingest/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { anEpisode, event } from '../store/support/events.ts';
import { type TestApp, testApp } from './support/app.ts';
import { type Paper, paper } from './support/paper.ts';

const EVIL = '<img src=x onerror=alert(1)>';
const file = (name: string) => readFileSync(new URL(`../../api/ui/${name}`, import.meta.url), 'utf8');

let at: TestApp;
let page: Paper;
const say = async (...events: Event[]) => {
  await postgresLog(at.db).append(events);
  await at.project();
};
const shows = (text: string) => vi.waitFor(() => expect(page.main.textContent).toContain(text), { timeout: 10_000 });

beforeAll(async () => {
  at = await testApp();
  page = paper(async (path) => {
    const answer = await at.app.inject({ url: path });
    return { ok: answer.statusCode < 400, status: answer.statusCode, json: async () => answer.json() };
  });
  for (const [name, value] of Object.entries(page.globals)) vi.stubGlobal(name, value);
  await import('../../api/ui/page.js' as string);
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await at.close();
});

describe('the page', () => {
  it('is three files of this server, which may load nothing else and run nothing inline', async () => {
    for (const [url, type] of [
      ['/', 'text/html'],
      ['/ui/page.js', 'text/javascript'],
      ['/ui/page.css', 'text/css'],
    ]) {
      const answer = await at.app.inject({ url: url! });
      expect(answer.headers['content-type']).toContain(type);
      expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/);
      expect(answer.headers['content-security-policy']).not.toContain('unsafe');
    }
    expect(file('index.html')).not.toMatch(/<script(?![^>]*src=)|style=|\son\w+=|https?:\/\//);
    expect(file('page.css')).not.toMatch(/@import|url\(/);
    expect(file('page.js').replace('http://www.w3.org/2000/svg', '')).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?:\/\/|import\s*\(/,
    );
  });

  it('says what to do while there is nothing to see', async () => {
    await shows('Nothing has been released yet');
    page.go('#/episodes');
    await shows('No episodes yet');
  });

  it('draws the curve of the rounds, with a gap where a number is missing, and every number in a table', async () => {
    const release = (i: number, metrics: Record<string, number>) =>
      event(
        'policy.released',
        {
          release_id: `r${i}`,
          policies: { team: `c${i}` },
          reason: `RL ${i}`,
          by: 'demo',
          metrics: { round: i, ...metrics },
        },
        { time: new Date(Date.UTC(2026, 0, 1, i)).toISOString() },
      );
    await say(
      release(0, { pass_at_1: 0.4, best_of_n: 0.5, verifier_precision: 0.3, rejection_rate: 0.6 }),
      release(1, { pass_at_1: 0.7, verifier_precision: 0.4, rejection_rate: 0.65 }),
      release(2, { pass_at_1: 0.9, best_of_n: 0.95, verifier_precision: 0.6, rejection_rate: 0.7 }),
    );
    page.go('#/rounds');
    await shows('RL 2');
    const [svg] = page.main.all('svg');
    expect(svg!.getAttribute('aria-label')).toContain('pass@1 from 40.0 % to 90.0 %');
    const paths = svg!.all('path').map((path) => path.getAttribute('d')!);
    expect(paths).toHaveLength(4);
    expect(paths.map((path) => path.replaceAll(/[\d. ]+/g, ''))).toEqual(['MLL', 'MM', 'MLL', 'MLL']);
    expect(svg!.all('circle')).toHaveLength(11);
    const rows = page.main
      .all('tbody')[0]!
      .all('tr')
      .map((row) =>
        row
          .all('td')
          .slice(0, 4)
          .map((cell) => cell.textContent),
      );
    expect(rows[1]).toEqual(['70.0 %', '–', '40.0 %', '65.0 %']);
  });

  it('lists episodes page by page', async () => {
    const starts = Array.from({ length: 60 }, (_, i) =>
      event(
        'episode.started',
        { episode_id: `many-${i}`, task_id: 'many' },
        { time: new Date(Date.UTC(2026, 0, 2, 0, i)).toISOString() },
      ),
    );
    await say(...starts);
    page.go('#/episodes?task_id=many');
    await shows('many-59');
    const rows = () => page.main.all('tbody')[0]!.childElementCount;
    expect(rows()).toBe(50);
    const more = page.main.all('button').find((button) => button.textContent === 'Show more')!;
    more.click();
    await vi.waitFor(() => expect(rows()).toBe(60));
    expect(more.getAttribute('hidden')).toBe('');
  });

  it('finds episodes by a filter in one line, and keeps one that cannot be read beside its reason', async () => {
    page.go(`#/episodes?${new URLSearchParams({ filter: "episode_id in ('many-3', 'many-4', 'manny-5')" })}`);
    await shows('Nothing has episode_id = "manny-5". Did you mean many-5?');
    expect(page.main.all('tbody')[0]!.childElementCount).toBe(2);
    page.go(`#/episodes?${new URLSearchParams({ filter: 'rewrd > 0' })}`);
    await shows('Did you mean reward?');
    const box = page.main.all('input').find((input) => input.getAttribute('name') === 'filter')!;
    expect(box.getAttribute('value')).toBe('rewrd > 0');
  });

  it('shows an episode as a conversation, markup in it as plain text, and ground truth only when asked', async () => {
    await say(
      ...anEpisode('a/b?c'),
      event('message.sent', { episode_id: 'a/b?c', message_id: 'evil', from: EVIL, content: EVIL }),
      event('feedback.recorded', {
        feedback_id: 'matrix',
        target: { kind: 'episode', episode_id: 'a/b?c' },
        kind: 'execution',
        name: 'matrix',
        matrix: {
          programs: [{ name: 'first' }, { name: 'right', reference: true }],
          tests: [{ name: 'one' }, { name: 'two' }, { name: 'truth', ground_truth: true }],
          pass: [
            [1, 0, null],
            [1, 1, 1],
          ],
        },
      }),
    );
    page.go(`#/episodes/${encodeURIComponent('a/b?c')}`);
    await shows('let me see');
    expect(page.main.textContent).toContain(EVIL);
    expect(page.main.all('img')).toEqual([]);
    const signs = () =>
      page.main
        .all('table')[0]!
        .all('td')
        .map((cell) => `${cell.textContent} ${cell.getAttribute('aria-label')}`);
    expect(signs()).toEqual(['✓ passed', '✗ failed']);
    const toggle = page.main.all('button').find((button) => button.textContent === 'Show ground truth')!;
    toggle.click();
    expect(toggle.getAttribute('aria-pressed')).toBe('true');
    expect(signs()).toEqual(['✓ passed', '✗ failed', '· not run', '✓ passed', '✓ passed', '✓ passed']);
    toggle.click();
    expect(signs()).toHaveLength(2);
  });

  it('shows a call as one block, and a matrix of nothing but ground truth at once', async () => {
    await say(
      ...anEpisode('block'),
      event('feedback.recorded', {
        feedback_id: 'truth',
        target: { kind: 'episode', episode_id: 'block' },
        kind: 'execution',
        name: 'matrix',
        matrix: { programs: [{ name: 'only' }], tests: [{ name: 'right', ground_truth: true }], pass: [[1]] },
      }),
    );
    page.go('#/episodes/block');
    await shows('Episode block');
    const blocks = page.main.all('li').map((item) => item.textContent);
    expect(blocks).toHaveLength(4);
    expect(blocks[3]).toContain('prompt: 0 new of 2, the others are above');
    expect(blocks[3]).toContain('candidate 1 of 2 · chosen');
    expect(blocks[3]).toContain('candidate 2 of 2');
    expect(
      page.main
        .all('td')
        .map((cell) => cell.textContent)
        .slice(0, 1),
    ).toEqual(['✓']);
    expect(page.main.all('button').some((button) => button.textContent === 'Show ground truth')).toBe(false);
  });

  it('says what went wrong, and tries again', async () => {
    page.go('#/episodes/nobody');
    await shows('There is no episode "nobody".');
    expect(page.main.all('button').map((button) => button.textContent)).toEqual(['Try again']);
  });
});
