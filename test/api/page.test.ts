import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judge } from '../../store/evaluate/judging/judge.ts';
import { anEpisode, event } from '../store/support/events.ts';
import { type TestApp, testApp } from './support/app.ts';
import { type Paper, paper } from './support/paper.ts';

const EVIL = '<img src=x onerror=alert(1)>';
const FOLDER = new URL('../../api/page/', import.meta.url);
const SCRIPTS = readdirSync(FOLDER).filter((name) => name.endsWith('.js'));
const file = (name: string) => readFileSync(new URL(name, FOLDER), 'utf8');
const plots = () => page.main.all('svg').filter((svg) => svg.getAttribute('role') === 'img');
const button = (label: string) => page.main.all('button').find(({ textContent }) => textContent === label)!;

let at: TestApp;
let page: Paper;
const say = async (...events: Event[]) => {
  await postgresLog(at.db).append(events);
  await at.project();
};
const shows = (text: string) => vi.waitFor(() => expect(page.main.textContent).toContain(text), { timeout: 10_000 });

beforeAll(async () => {
  at = await testApp();
  page = paper(async (url, { method = 'GET', headers, body }) => {
    const answer = await at.app.inject({
      url,
      method: method as 'GET' | 'POST',
      headers: headers as Record<string, string>,
      ...(body ? { payload: body as string } : {}),
    });
    return { ok: answer.statusCode < 400, status: answer.statusCode, json: async () => answer.json() };
  });
  for (const [name, value] of Object.entries(page.globals)) vi.stubGlobal(name, value);
  await import('../../api/page/page.js' as string);
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await at.close();
});

describe('the page', () => {
  it('is files of this server, which may load nothing else and run nothing inline', async () => {
    for (const [url, type] of [
      ['/', 'text/html'],
      ['/ui/page.css', 'text/css'],
      ...SCRIPTS.map((name) => [`/ui/${name}`, 'text/javascript']),
    ]) {
      const answer = await at.app.inject({ url: url! });
      expect(answer.headers['content-type']).toContain(type);
      expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/);
      expect(answer.headers['content-security-policy']).not.toContain('unsafe');
    }
    expect(file('index.html')).not.toMatch(/<script(?![^>]*src=)|style=|\son\w+=|https?:\/\//);
    expect(file('page.css')).not.toMatch(/@import|url\(/);
    expect(SCRIPTS).toContain('page.js');
    for (const name of SCRIPTS)
      expect(file(name).replace('http://www.w3.org/2000/svg', ''), name).not.toMatch(
        /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?:\/\/|import\s*\(/,
      );
  });

  it('says what to do while there is nothing to see', async () => {
    await shows('No episodes yet');
    for (const [hash, text] of [
      ['#/releases', 'Nothing has been released yet'],
      ['#/runs', 'No plan has been run yet'],
      ['#/schedules', 'No schedule yet'],
    ] as const) {
      page.go(hash);
      await shows(text);
    }
  });

  it('draws the curve of the releases, with a gap where a number is missing, and every number in a table', async () => {
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
    page.go('#/releases');
    await shows('RL 2');
    const [svg] = plots();
    expect(svg!.getAttribute('aria-label')).toContain('pass_at_1 from 40.0 % to 90.0 %');
    const paths = svg!.all('path').map((path) => path.getAttribute('d')!);
    expect(paths).toHaveLength(4);
    expect(paths.map((path) => path.replaceAll(/[\d. ]+/g, ''))).toEqual(['MM', 'MLL', 'MLL', 'MLL']);
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
    expect(rows[1]).toEqual(['–', '0.700', '0.650', '0.400']);
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

  it('shows a run with its gate as intervals around zero, and the curves of its training', async () => {
    const job = (job_id: string, kind: string, result: object) => [
      event('job.requested', { job_id, kind, spec: {} }),
      event('job.started', { job_id, worker: 'w' }),
      event('job.finished', { job_id, outcome: 'done', result }),
    ];
    const over = (of: string, low: number, high: number, outcome: string, passed: boolean) => ({
      ...{ of, tasks: 12, incumbent: 0.5, candidate: 0.5 + (low + high) / 2, difference: (low + high) / 2 },
      ...{ interval: { low, high }, outcome, passed },
    });
    const progressed = [10, 20, 30].map((step) =>
      event('job.progressed', {
        job_id: 'nightly-1/1/train-team',
        step,
        metrics: { loss: 3 / step, share: step / 30 },
      }),
    );
    await say(
      ...job('nightly-1', 'plan', { released: false, rounds: [{}] }),
      ...job('nightly-1/1/train-team', 'sft', { checkpoint_id: 'c9' }),
      ...progressed,
      ...job('nightly-1/1/gate', 'gate', {
        kind: 'play',
        measure: 'mean reward',
        unit: 'reward',
        passed: false,
        reason: 'The role solver is worse.',
        rules: { accept: 'better', margin: 0, level: 0.95, guardrails: { roles: 0.05 } },
        main: over('all tasks', 0.1, 0.3, 'better', true),
        guardrails: [over('role solver', -0.4, -0.2, 'worse', false)],
      }),
    );
    page.go('#/runs');
    await shows('nightly-1');
    page.go(`#/runs/${encodeURIComponent('nightly-1')}`);
    await shows('The role solver is worse.');
    const [loss, gate] = plots();
    expect(gate!.getAttribute('aria-label')).toBe('all tasks: better; role solver: worse');
    const ends = gate!
      .all('line')
      .filter((line) => line.getAttribute('class')!.startsWith('interval'))
      .map((line) => [line.getAttribute('class'), ...['x1', 'x2'].map((name) => Number(line.getAttribute(name)))]);
    const zero = Number(
      gate!
        .all('line')
        .find((line) => line.getAttribute('class') === 'zero')!
        .getAttribute('x1'),
    );
    expect(ends[0]![0]).toBe('interval pass');
    expect(ends[0]![1]).toBeGreaterThan(zero);
    expect(ends[1]![0]).toBe('interval fail');
    expect(ends[1]![2]).toBeLessThan(zero);
    expect(loss!.getAttribute('aria-label')).toContain('loss of team over 3 steps; last: all 0.1');
    expect(loss!.all('circle')).toHaveLength(3);
    expect(page.main.textContent).toContain('checkpoint c9');
    // How far the job has come is no number to plot.
    expect(page.main.textContent).not.toContain('share');
  });

  it('shows a run of reinforcement as curves over its iterations, each point with its episodes', async () => {
    const played = (job_id: string) => [
      event('job.requested', { job_id, kind: 'rollout', spec: {} }),
      event('job.finished', { job_id, outcome: 'done', result: {} }),
    ];
    const episode = (id: string, rollout: string, reward: number) => [
      event('episode.started', { episode_id: id, task_id: 't', group_id: rollout, tags: { rollout } }),
      event('feedback.recorded', {
        feedback_id: `of-${id}`,
        ...{ target: { kind: 'episode', episode_id: id }, kind: 'reward', name: 'reward', value: reward },
      }),
    ];
    await say(
      event('job.requested', { job_id: 'often-1', kind: 'plan', spec: {} }),
      ...[1, 2, 3].flatMap((i) => [
        ...played(`often-1/1/${i}/rollout`),
        ...episode(`often-${i}-a`, `often-1/1/${i}/rollout`, 0),
        ...episode(`often-${i}-b`, `often-1/1/${i}/rollout`, i / 4),
        event('job.requested', { job_id: `often-1/1/${i}/train-router`, kind: 'rl', spec: {} }),
        event('job.progressed', { job_id: `often-1/1/${i}/train-router`, step: 1, metrics: { entropy: 1 / i } }),
      ]),
    );
    page.go('#/runs/often-1');
    await shows('Episodes by iteration');
    const labelled = plots().map((plot) => [plot.getAttribute('aria-label')!, plot] as const);
    const reward = labelled.find(([label]) => label.startsWith('reward of'))!;
    expect(reward[0]).toBe('reward of the episodes over 3 iterations; last: all 0.375');
    expect(reward[1].all('a').map((link) => link.getAttribute('href'))).toEqual(
      [1, 2, 3].map((i) => `#/episodes?tag.rollout=often-1%2F1%2F${i}%2Frollout`),
    );
    expect(labelled.map(([label]) => label)).toContain('entropy of router over 3 steps; last: all 0.333');
  });

  it('pauses and resumes a schedule', async () => {
    await at.app.inject({
      method: 'POST',
      url: '/v1/schedules',
      headers: { 'content-type': 'application/json' },
      payload: JSON.stringify({
        ...{ name: 'nightly', cron: '0 3 * * *', zone: 'Europe/Berlin' },
        job: { kind: 'evaluate', spec: { sets: { all: {} } } },
      }),
    });
    page.go('#/schedules');
    await shows('at 0 3 * * * (Europe/Berlin)');
    button('Pause').click();
    await shows('Paused by http: paused on the page');
    button('Resume').click();
    await shows('Next: ');
  });

  it('runs a query, shows its rows, plots numbers over a first column, and says what is wrong with one', async () => {
    page.go(`#/sql?${new URLSearchParams({ q: 'select x, x * x as square from generate_series(1, 4) as s (x)' })}`);
    await vi.waitFor(() => expect(page.main.all('textarea')).toHaveLength(1));
    const submit = () => page.main.all('form')[0]!.listeners.get('submit')!({ preventDefault: () => {} });
    submit();
    await shows('square');
    expect(
      page.main
        .all('tbody')[0]!
        .all('td')
        .map((cell) => cell.textContent),
    ).toEqual(['1', '4', '9', '16']);
    expect(plots()[0]!.getAttribute('aria-label')).toBe('square over x');
    // Round numbers up the axis, each place along it, and what the places are.
    expect(
      plots()[0]!
        .all('text')
        .map((label) => label.textContent),
    ).toEqual(['0', '5', '10', '15', '20', '1', '2', '3', '4', 'x']);
    page.main.all('textarea')[0]!.value = 'select rewrd from traj.episodes';
    submit();
    await shows('column "rewrd" does not exist');
    expect(page.main.all('tbody')).toHaveLength(0);
    expect(new URLSearchParams(page.location.hash.split('?')[1]).get('q')).toBe('select rewrd from traj.episodes');
  });

  it('runs the query of an address at once, also one with a question mark', async () => {
    page.go("#/sql?q=select 'so?' || 'so' as echo");
    await shows('so?so');
  });

  it('shows the beginning of what is very long, and how much is left out', async () => {
    page.go(`#/sql?${new URLSearchParams({ q: "select 'row' as a, repeat('x', 1000000) as b" })}`);
    await vi.waitFor(() => expect(page.main.all('textarea')[0]!.value).toContain('repeat'));
    page.main.all('form')[0]!.listeners.get('submit')!({ preventDefault: () => {} });
    await shows('x … (998000 more characters)');
    expect(page.main.textContent.length).toBeLessThan(3000);
    const at = { episode_id: 'long' };
    await say(
      event('episode.started', at),
      event('message.sent', { ...at, message_id: 'm', content: 'y'.repeat(300_000) }),
    );
    page.go('#/episodes/long');
    await shows('y … (200000 more characters)');
  });

  it('cuts a long task with a sign of it, and no character in half', async () => {
    const query = `${'z'.repeat(118)}😀 and more`;
    await say(
      event('task.defined', { task_id: 'smile', query }),
      event('episode.started', { episode_id: 'smiles', task_id: 'smile' }),
    );
    page.go('#/episodes?task_id=smile');
    await shows('smiles');
    expect(page.main.textContent).toContain(`${'z'.repeat(118)}…`);
    expect(page.main.textContent.isWellFormed()).toBe(true);
  });

  it('names what went wrong above the conversation, with a link to the entry, and at the entry', async () => {
    const about = { episode_id: 'astray' };
    const call = (seq: number, content: string) =>
      event('generation.completed', {
        ...{ ...about, call_id: `astray-${seq}`, agent_id: seq % 2 ? 'searcher' : 'writer', seq },
        choices: [{ index: 0, content }],
      });
    const mistake = (feedback_id: string, entry: number) =>
      event('feedback.recorded', {
        ...{ feedback_id, kind: 'failure', name: 'mistake', by: 'human', explanation: 'asks the wrong page' },
        target: { ...about, kind: 'agent', id: 'searcher', entry },
      });
    await say(
      event('episode.started', about),
      ...[0, 1, 2, 3, 4].map((seq) => call(seq, `text of ${seq}`)),
      event('tool.called', { ...about, tool_call_id: 't', call_id: 'astray-4', name: 'search', arguments: {} }),
      event('tool.returned', { ...about, tool_call_id: 't', status: 'error', error: 'no such page' }),
      mistake('astray-mistake', 3),
      event('episode.finished', { ...about, outcome: 'failure' }),
    );
    page.go('#/episodes/astray');
    await shows('What went wrong');
    expect(page.main.textContent).toContain('mistake of searcher (human), entry 3: asks the wrong page');
    const link = page.main.all('a').find(({ textContent }) => textContent === 'entry 3')!;
    const items = () => page.main.all('ol')[0]!.all('li');
    const marked = items().filter(({ textContent }) => textContent.includes('asks the wrong page'));
    expect(marked.map(({ textContent }) => textContent.includes('text of 3'))).toEqual([true]);
    const looks = () => page.main.all('rect').map((mark) => mark.getAttribute('class'));
    expect(looks()).toEqual(['call', 'call', 'call', 'call bad', 'call', 'tool_call bad']);
    page.go(link.getAttribute('href')!);
    await vi.waitFor(() =>
      expect(items().map((item) => item.getAttribute('aria-current'))).toEqual([null, null, null, 'true', null, null]),
    );
    page.go('#/episodes/astray?at=entry:77');
    await shows('This episode has no entry entry:77.');
  });

  it('plots the credits of an episode by step', async () => {
    const played = (episode_id: string, value: number) => [
      event('episode.started', { episode_id, group_id: 'earning' }),
      ...[1, 2, 3, 4].map((seq) =>
        event('generation.completed', {
          ...{ episode_id, call_id: `${episode_id}-${seq}`, agent_id: 'a', seq },
          choices: [{ index: 0, content: 'x', chosen: true }],
        }),
      ),
      event('feedback.recorded', {
        ...{ feedback_id: `${episode_id}-reward`, kind: 'reward', name: 'reward', value },
        target: { kind: 'episode', episode_id },
      }),
      event('episode.finished', { episode_id, outcome: 'unknown' }),
    ];
    await say(...played('earns', 1), ...played('fails', 0));
    const chosen = { methods: [{ method: 'grpo_advantage' }], episodes: ['earns', 'fails'], now: () => new Date() };
    await judge(at.db, postgresLog(at.db), chosen);
    await at.project();
    page.go('#/episodes/earns');
    await shows('Credit by step');
    const points = plots()[0]!.all('circle');
    expect(points.map(({ textContent }) => textContent.split(',')[1])).toEqual(
      [1, 2, 3, 4].map((entry) => ` entry ${entry}`),
    );
  });

  it('compares two models on the tasks that both tried, and keeps a name that nothing has in its box', async () => {
    const played = (model: string, task: number, reward: number) => {
      const about = { episode_id: `${model}-${task}` };
      return [
        event('episode.started', { ...about, task_id: `both-${task}` }),
        event('generation.requested', {
          ...about,
          call_id: `${model}-${task}-c`,
          agent_id: 'solver',
          model,
          input: [],
        }),
        event('generation.completed', {
          ...{ ...about, call_id: `${model}-${task}-c`, agent_id: 'solver' },
          choices: [{ index: 0, content: 'x' }],
        }),
        event('feedback.recorded', {
          ...{ feedback_id: `${model}-${task}-reward`, kind: 'reward', name: 'reward', value: reward },
          target: { ...about, kind: 'episode' },
        }),
        event('episode.finished', { ...about, outcome: reward === 1 ? 'success' : 'failure' }),
      ];
    };
    const tasks = Array.from({ length: 12 }, (_, i) => i);
    await say(...tasks.flatMap((i) => [...played('old', i, i < 3 ? 1 : 0), ...played('new', i, i < 9 ? 1 : 0)]));
    page.go('#/compare?first=old&second=new');
    await shows('Second less first');
    expect(page.main.textContent).toContain('model new');
    expect(page.main.textContent).toContain('25.0 %75.0 %+50.0');
    expect(plots()[0]!.all('circle')[0]!.getAttribute('class')).toBe('interval pass');
    page.go('#/compare?first=old&second=nwe');
    await shows('Did you mean new?');
    expect(page.main.all('input').map((input) => input.getAttribute('value'))).toEqual(['old', 'nwe']);
  });

  it('shows reasoning and small images beside the text of a message, and offers a comparison of two releases', async () => {
    const at = { episode_id: 'parts' };
    await say(
      event('episode.started', at),
      event('message.sent', {
        ...{ ...at, message_id: 'm' },
        content: [
          { type: 'reasoning', content: 'it is a dot' },
          { type: 'text', content: 'a dot' },
          { type: 'image_url', ...{ image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } } },
        ],
      }),
      ...['before', 'after'].map((weights, i) =>
        event(
          'policy.released',
          { release_id: `parts-${i}`, policies: { parts: weights }, by: 'somebody' },
          { time: new Date(Date.UTC(2026, 1, 1, i)).toISOString() },
        ),
      ),
    );
    page.go('#/episodes/parts');
    await shows('a dot');
    expect(page.main.all('pre').map(({ textContent }) => textContent)).toEqual(['reasoning: it is a dot\na dot']);
    const [image] = page.main.all('img');
    expect(image!.getAttribute('src')).toBe('data:image/png;base64,iVBORw0KGgo=');
    expect(image!.getAttribute('alt')).toBe('image/png, 8 bytes');
    page.go('#/releases');
    await shows('compare with the one before');
    expect(page.main.all('a').map((link) => link.getAttribute('href'))).toContain(
      '#/compare?first=before&second=after',
    );
  });

  it('says that an address leads nowhere', async () => {
    page.go('#/episods');
    await shows('There is no such page.');
  });

  it('keeps the lines of a task, and says why a step has no credit', async () => {
    const about = { episode_id: 'lines', call_id: 'lines-1' };
    await say(
      event('task.defined', { task_id: 'lined', query: 'def add(a, b):\n  return' }),
      event('episode.started', { episode_id: 'lines', task_id: 'lined' }),
      event('generation.requested', { ...about, agent_id: 'a', input: [] }),
      event('generation.completed', { ...about, choices: [{ index: 0, content: 'a + b' }] }),
      event('episode.finished', { episode_id: 'lines', outcome: 'unknown' }),
    );
    const chosen = { methods: [{ method: 'grpo_advantage' }], episodes: ['lines'], now: () => new Date() };
    await judge(at.db, postgresLog(at.db), chosen);
    await at.project();
    page.go('#/episodes/lines');
    await shows('a + b');
    expect(page.main.all('pre')[0]!.textContent).toBe('def add(a, b):\n  return');
    expect(page.main.textContent).toContain('credit none (missing_reward) grpo_advantage');
  });

  it('says in words which tools an answer without text calls', async () => {
    const at = { episode_id: 'calls', call_id: 'k' };
    const content = [{ type: 'tool_call', id: 'c1', name: 'find', arguments: { city: 'Oslo' } }];
    await say(
      event('episode.started', { episode_id: 'calls' }),
      event('generation.completed', { ...at, choices: [{ index: 0, content }] }),
    );
    page.go('#/episodes/calls');
    await shows('calls find {"city": "Oslo"}');
  });

  it('lists every operation at /docs, with its input, output, scope and examples', async () => {
    const { headers, statusCode } = await at.app.inject('/docs');
    expect([statusCode, headers.location]).toEqual([302, '/#/docs']);
    page.go('#/docs/schedule.pause');
    await shows('Needs the scope train');
    const { paths } = (await at.app.inject('/openapi.json')).json();
    const documented = Object.values(paths as Record<string, object>).flatMap((one) =>
      Object.values(one).flatMap(({ operationId }) => operationId ?? []),
    );
    const shown = page.main.all('details');
    expect(shown.map((one) => one.all('code')[0]!.textContent)).toEqual(expect.arrayContaining(documented));
    expect(shown).toHaveLength(documented.length);
    const [open, ...others] = shown.filter((one) => one.getAttribute('open') !== null);
    expect(others).toEqual([]);
    expect(open!.textContent).toMatch(/POST \/v1\/schedules\/\{name\}\/pause.*reason.*body.*string, required/s);
    expect(open!.all('pre')[0]!.textContent).toContain(`-d '{"reason":`);
  });

  it('says what went wrong, and tries again', async () => {
    page.go('#/episodes/nobody');
    await shows('There is no episode "nobody".');
    expect(page.main.all('button').map((button) => button.textContent)).toEqual(['Try again']);
  });
});
