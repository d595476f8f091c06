/** The page: which view an address names, and how it is shown. A view calls only this server; the event `again` reads it once more. */
import { make, status } from './elements.js';
import { episode } from './episode.js';
import { episodes } from './episodes.js';
import { sql } from './query.js';
import { releases } from './releases.js';
import { run, runs } from './runs.js';
import { schedules } from './schedules.js';

const main = document.querySelector('#main');

const PAGES = [
  [/^\/(?:episodes)?$/, episodes, 'Episodes'],
  [/^\/episodes\/(.+)$/, episode, 'Episode'],
  [/^\/releases$/, releases, 'Releases'],
  [/^\/runs$/, runs, 'Runs'],
  [/^\/runs\/(.+)$/, run, 'Run'],
  [/^\/schedules$/, schedules, 'Schedules'],
  [/^\/sql$/, sql, 'SQL'],
];

let under = new AbortController();

async function show() {
  under.abort();
  under = new AbortController();
  const { signal } = under;
  const [path, query = ''] = (location.hash.slice(1) || '/').split('?', 2);
  const [pattern, page, title] = PAGES.find(([candidate]) => candidate.test(path)) ?? PAGES[0];
  for (const link of document.querySelectorAll('nav a')) {
    if (path.startsWith(link.hash.slice(1)) || (path === '/' && link.hash === '#/episodes'))
      link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${title} · Troupe`;
  status.textContent = 'Loading …';
  main.setAttribute('aria-busy', 'true');
  try {
    const argument = pattern.exec(path)?.[1];
    const children = await page(
      signal,
      new URLSearchParams(query),
      argument === undefined ? undefined : decodeURIComponent(argument),
    );
    if (signal.aborted) return;
    main.replaceChildren(...children.flat(Infinity).filter(Boolean));
    status.textContent = '';
  } catch (error) {
    if (signal.aborted) return;
    const again = make('button', { type: 'button', onclick: show }, 'Try again');
    main.replaceChildren(make('div', { class: 'notice error', role: 'alert' }, make('p', {}, error.message), again));
    status.textContent = '';
  } finally {
    if (!signal.aborted) main.removeAttribute('aria-busy');
  }
}

addEventListener('hashchange', () => {
  show().then(() => main.focus());
});
addEventListener('again', show);
show();
