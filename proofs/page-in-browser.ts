/**
 * Proof that the web page works in a real browser: Chromium opens it, follows its links, types into its boxes and presses its buttons, with
 * the mouse's and the keyboard's events. What was recorded is shown as text, whatever it is; nothing is asked of another server.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromiumIn, openTab } from './chromium.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { envelopesOf, post } from './sending.ts';
import { startUp, statusOf, until } from './up.ts';

const EVIL = '<img src=x onerror="document.title=1">';
const HOSTILE = `\u202e<b>evil</b>\u0007\u001b[31m "'>\u2066<script>document.title=1</script>`;
/** What the page has of it in any case. */
const HOSTILE_SHOWN = '<script>document.title=1</script>';
const PATIENCE_MS = 60_000;

export const proof: Proof = {
  name: 'page-in-browser',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const program = chromiumIn();
    if (program === null)
      return { ok: true, lines: [], skipped: ['no Chromium; install it, for instance with: apt-get install chromium'] };
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const up = startUp(join(scratch, 'home'));
    const url = await up.url();
    const tab = await openTab(program, join(scratch, 'profile'));
    const text = () => tab.evaluate<string>('document.querySelector("#main")?.innerText ?? ""');
    const press = (selector: string) =>
      tab.evaluate(`(() => { const found = ${selector}; found.focus(); found.click(); })()`);
    const button = (label: string) =>
      `[...document.querySelectorAll('main button')].find((one) => one.textContent === ${JSON.stringify(label)})`;
    const link = (label: string) =>
      `[...document.querySelectorAll('a')].find((one) => one.textContent === ${JSON.stringify(label)})`;
    /** Whether the page shows it in time. */
    const shows = async (...wanted: readonly (string | RegExp)[]): Promise<void> => {
      let shown = '';
      for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await sleep(100)) {
        shown = await text();
        if (wanted.every((one) => (typeof one === 'string' ? shown.includes(one) : one.test(shown)))) return;
      }
      throw new Error(`the page should show ${wanted.join(' and ')}, but it shows: ${shown.slice(0, 2000)}`);
    };
    const step = async (what: string, work: () => Promise<void>): Promise<void> => {
      await work().then(
        () => check(what, true),
        (error: Error) => check(what, false, error.message),
      );
    };
    try {
      for (const [id, outcome] of [
        ['right', 'success'],
        ['wrong', 'failure'],
      ] as const)
        await post(url, recorded(id, outcome));
      await until(async () => {
        const { items } = (await (await fetch(`${url}/v1/episodes`)).json()) as { items: object[] };
        return items.length === 2;
      }, 'both episodes are not in the tables');
      await step('the list has both episodes', async () => {
        await tab.go(url);
        await shows('right', 'wrong', 'failure');
      });
      await step('the first key of the keyboard leads past the navigation', async () => {
        await tab.evaluate('document.body.focus()');
        await tab.press('Tab');
        const focused = await tab.evaluate<string>('document.activeElement.textContent');
        if (focused !== 'Skip to content') throw new Error(`it leads to ${focused}`);
      });
      await step('that key and Enter leave the view as it is, with the focus in its content', async () => {
        await tab.press('Enter');
        const [id, hash] = await tab.evaluate<[string, string]>('[document.activeElement.id, location.hash]');
        if (id !== 'main' || hash !== '') throw new Error(`the focus is in ${id}, the address is ${hash}`);
        await shows('right', 'wrong');
      });
      await step('a filter that is typed and sent with Enter leaves one episode', async () => {
        await tab.evaluate('document.querySelector("input[name=filter]").focus()');
        await tab.type('outcome = failure');
        await tab.press('Enter');
        await shows('wrong', /^(?![\s\S]*\bright\b)/);
      });
      await step('a filter that cannot be read is explained, and stays in its box', async () => {
        await tab.go(`${url}/#/episodes?filter=${encodeURIComponent('outcome >>> 1')}`);
        await shows(/expected|should be/i);
        const kept = await tab.evaluate<string>('document.querySelector("input[name=filter]").value');
        if (kept !== 'outcome >>> 1') throw new Error(`the box holds ${kept}`);
      });
      await step('a link leads to the conversation of an episode', async () => {
        await tab.go(`${url}/#/episodes`);
        await shows('right');
        await press(link('right'));
        await shows('Episode right', 'what is 40 + 2', '42', 'solver');
      });
      await step('markup that an agent wrote is shown as text', async () => {
        await shows(EVIL);
        const images = await tab.evaluate<number>('document.querySelectorAll("main img").length');
        const title = await tab.evaluate<string>('document.title');
        if (images > 0 || title === '1') throw new Error(`${images} images, title ${title}`);
      });
      await step(
        'a name and a tag with markup, control characters and marks of direction stay text in their own place',
        async () => {
          await post(url, recorded('hostile', 'success', HOSTILE));
          await until(
            async () => (await statusOf(`${url}/v1/episodes/hostile`)) === 200,
            'the episode is not in the tables',
          );
          await tab.go(`${url}/#/episodes/hostile`);
          await shows('Episode hostile', HOSTILE_SHOWN);
          const loose = await tab.evaluate<number>(
            `[...document.querySelectorAll('main *')].filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.includes('\u202e')) && getComputedStyle(one).unicodeBidi !== 'isolate' && getComputedStyle(one).display.startsWith('inline')).length`,
          );
          const made = await tab.evaluate<number>('document.querySelectorAll("main img, main script, main b").length');
          if (loose > 0 || made > 0) throw new Error(`${loose} places let a direction out, ${made} elements were made`);
          await tab.go(`${url}/#/episodes/right`);
          await shows('Episode right');
        },
      );
      await step('a query in the box for SQL is run, and a wrong one explained', async () => {
        await press(link('SQL'));
        await shows('Run');
        const box = 'document.querySelector("textarea[name=sql]")';
        await tab.evaluate(`${box}.select(), ${box}.focus()`);
        await tab.type("select outcome, count(*) as episodes from traj.episodes where outcome = 'success' group by 1");
        await press(button('Run'));
        await shows('success');
        await tab.evaluate(`${box}.select(), ${box}.focus()`);
        await tab.type('select * from traj.episods');
        await press(button('Run'));
        await shows('Did you mean traj.episodes?');
      });
      await step(
        'the query is in the address: it is there after a reload, and the one before after going back',
        async () => {
          const box = 'document.querySelector("textarea[name=sql]")';
          for (const number of [71, 72]) {
            await tab.evaluate(`${box}.select(), ${box}.focus()`);
            await tab.type(`select ${number} + 100 as sum`);
            await press(button('Run'));
            await shows(String(number + 100));
          }
          await tab.evaluate('location.reload()');
          await shows('172');
          await tab.evaluate('history.back()');
          await shows('171');
          const kept = await tab.evaluate<string>(`${box}.value`);
          if (kept !== 'select 71 + 100 as sum') throw new Error(`the box holds ${kept}`);
        },
      );
      await step(
        'what went wrong is named first, and its link leads to the entry, in sight and with the focus',
        async () => {
          await post(url, strayed('strayed'));
          await until(
            async () => (await statusOf(`${url}/v1/episodes/strayed`)) === 200,
            'the episode is not in the tables',
          );
          await tab.go(`${url}/#/episodes/strayed`);
          await shows('What went wrong', 'mistake of solver (human), entry 30: looks away');
          await press(link('entry 30'));
          const reached = `(() => { const { top } = document.activeElement.getBoundingClientRect(); return document.activeElement.textContent.includes('text 30') && top >= 0 && top < innerHeight; })()`;
          await until(() => tab.evaluate<boolean>(reached), 'the entry is not in sight with the focus');
        },
      );
      await step('a schedule is paused and resumed by its buttons', async () => {
        const schedule = {
          name: 'nightly',
          cron: '0 3 * * *',
          job: { kind: 'judge', spec: { methods: [{ method: 'format_filter' }] } },
        };
        const added = await fetch(`${url}/v1/schedules`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(schedule),
        });
        if (added.status !== 200) throw new Error(await added.text());
        await press(link('Schedules'));
        await shows('nightly', 'at 0 3 * * * (UTC)', 'Next:');
        await press(button('Pause'));
        await shows('Paused by', 'paused on the page');
        const { paused } = (await (await fetch(`${url}/v1/schedules/nightly`)).json()) as { paused: object | null };
        if (paused === null) throw new Error('the server does not know');
        const focused = await tab.evaluate<string>('document.activeElement.textContent');
        if (focused !== 'Resume') throw new Error(`the focus went from Pause to ${focused}`);
        await press(button('Resume'));
        await shows('Next:');
      });
      await step('runs and releases say how the first one is made', async () => {
        await press(link('Runs'));
        await shows('troupe plan run');
        await press(link('Releases'));
        await shows('Nothing has been released yet');
      });
      await step('nothing reaches out of a window of 320 pixels', async () => {
        await tab.widen(320);
        for (const [path, text] of NARROW) {
          await tab.go(`${url}/#/${path}`);
          await shows(text);
          const width = await tab.evaluate<number>('document.documentElement.scrollWidth');
          if (width > 320) throw new Error(`${path} is ${width} pixels wide`);
        }
      });
      const elsewhere = tab.requests.filter((asked) => !asked.startsWith(`${url}/`) && !/^(?:about|data):/.test(asked));
      check(`${tab.requests.length} requests, all of them to this server`, elsewhere.length === 0, elsewhere);
      // The browser writes an answer of 400 to its console: the two that were asked wrongly.
      const troubles = tab.troubles.filter((one) => !/status of 400/.test(one));
      check('no script failed, and nothing was against the policy for content', troubles.length === 0, troubles);
    } finally {
      await tab.close();
      await up.end();
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

/** Pages, and what each shows once it is there. */
const NARROW = [
  ['episodes', 'failure'],
  ['episodes/hostile', 'Conversation'],
  ['episodes/strayed', 'Who did what'],
  ['compare', 'Name two checkpoints'],
  ['docs/schedule.add', 'Needs the scope'],
  ['runs', 'troupe plan run'],
  ['releases', 'Nothing has been released yet'],
  ['schedules', 'Next:'],
  ['sql', 'Run'],
] as const;

const recorded = (id: string, outcome: string, name = 'solver') =>
  envelopesOf(id, [
    ['task.defined', { task_id: `task-${id}`, query: 'what is 40 + 2' }],
    ['episode.started', { episode_id: id, task_id: `task-${id}`, tags: { name } }],
    ['agent.defined', { episode_id: id, agent_id: 'solver', name, role: name }],
    [
      'generation.requested',
      { episode_id: id, call_id: 'c1', agent_id: 'solver', input: [{ role: 'user', content: 'what is 40 + 2' }] },
    ],
    [
      'generation.completed',
      { episode_id: id, call_id: 'c1', agent_id: 'solver', choices: [{ index: 0, content: `42 ${EVIL}` }] },
    ],
    ['episode.finished', { episode_id: id, outcome }],
  ]);

/** Forty calls, of which a person names one as the mistake. */
const strayed = (id: string) =>
  envelopesOf(id, [
    ['episode.started', { episode_id: id }],
    ...Array.from({ length: 40 }, (_, seq): [string, object] => [
      'generation.completed',
      { episode_id: id, call_id: `c${seq}`, agent_id: 'solver', seq, choices: [{ index: 0, content: `text ${seq}` }] },
    ]),
    [
      'feedback.recorded',
      {
        ...{ feedback_id: 'mistake', kind: 'failure', name: 'mistake', by: 'human', explanation: 'looks away' },
        target: { kind: 'agent', id: 'solver', episode_id: id, entry: 30 },
      },
    ],
    ['episode.finished', { episode_id: id, outcome: 'failure' }],
  ]);
