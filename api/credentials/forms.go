package credentials

// forms are the forms of credentials; of two that match at one place the first one counts. Our own
// come first: their prefixes are constants of api/op and fsm/command.
var forms = []form{
	{
		name: "an edit_key of this service", beginnings: []string{"ck_"}, inWords: true,
		pattern: pattern(`ck_[a-z2-7]{52}`),
	},
	{
		name: "a recovery_key of this service", beginnings: []string{"crk_"}, inWords: true,
		pattern: pattern(`crk_[a-z2-7]{52}`),
	},
	{
		name: "a moderator's token of this service", beginnings: []string{"cmod_"}, inWords: true,
		pattern: pattern(`cmod_[a-z2-7]{52}`),
	},
	{
		name: "a webhook secret", beginnings: []string{"whsec_"}, inWords: true, // also of other services
		pattern: pattern(`whsec_[A-Za-z0-9+/]{24,}=*`),
	},
	{
		// The first line, headers, the beginning of the key, and all up to the last line. Line breaks
		// may be those of a string in JSON.
		name: "a private key", beginnings: []string{"-----BEGIN "},
		pattern: pattern(`-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])*` +
			`(?:[A-Za-z-]{1,40}: [^\n\\]{0,80}(?:\s|\\[nr])+){0,4}` +
			`[A-Za-z0-9+/]{20}(?s:.*?-----END [A-Z0-9 ]+-----|.*)`),
	},
	{
		name: "an age key", beginnings: []string{"AGE-SECRET-KEY-1"},
		pattern: pattern(`AGE-SECRET-KEY-1[0-9A-Z]{58}`),
	},
	{
		name: "a signed token", beginnings: []string{".eyJ"}, // without its header
		pattern: pattern(`\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`),
	},
	{
		name: "a GitHub token", beginnings: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
		pattern: pattern(`gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,}`),
	},
	{
		name: "a GitLab token", beginnings: []string{"glpat-", "gldt-", "glrt-"}, digits: true,
		pattern: pattern(`gl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,}`),
	},
	{
		name: "an npm token", beginnings: []string{"npm_"},
		pattern: pattern(`npm_[A-Za-z0-9]{36}`),
	},
	{
		name: "a PyPI token", beginnings: []string{"pypi-"}, digits: true,
		pattern: pattern(`pypi-[A-Za-z0-9_-]{50,}`),
	},
	{
		name: "an AWS access key", beginnings: []string{"AKIA", "ASIA"},
		pattern: pattern(`A[KS]IA[A-Z2-7]{16}`),
	},
	{
		name: "an AWS secret key", beginnings: []string{"secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey"},
		inWords: true, digits: true,
		pattern: pattern(`(?:secret_access_key|SECRET_ACCESS_KEY|SecretAccessKey)["']?\s*[:=]\s*["']?[A-Za-z0-9/+]{40}`),
	},
	{
		name: "a Google API key", beginnings: []string{"AIza"},
		pattern: pattern(`AIza[A-Za-z0-9_-]{35}`),
	},
	{
		name: "an Azure storage key", beginnings: []string{"AccountKey="},
		pattern: pattern(`AccountKey=[A-Za-z0-9+/]{86}==`),
	},
	{
		name: "an Anthropic key", beginnings: []string{"sk-ant-"},
		pattern: pattern(`sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}`),
	},
	{
		name: "an OpenAI key", beginnings: []string{"sk-proj-", "sk-svcacct-", "sk-admin-"}, digits: true,
		pattern: pattern(`sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}`),
	},
	{
		name: "an API key", beginnings: []string{"sk-"}, digits: true, // of DeepSeek, OpenRouter and others
		pattern: pattern(`sk-(?:or-v1-)?[A-Za-z0-9]{32,}`),
	},
	{
		name: "a Hugging Face token", beginnings: []string{"hf_"},
		pattern: pattern(`hf_[A-Za-z0-9]{34}`),
	},
	{
		name: "a Groq key", beginnings: []string{"gsk_"},
		pattern: pattern(`gsk_[A-Za-z0-9]{48,}`),
	},
	{
		name: "a Slack token", beginnings: []string{"xoxa-", "xoxb-", "xoxe-", "xoxp-", "xapp-"},
		pattern: pattern(`x(?:ox[abep]|app)-[0-9]+-[A-Za-z0-9-]{20,}`),
	},
	{
		name: "a Slack webhook", beginnings: []string{"hooks.slack.com/"},
		pattern: pattern(`hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{16,}`),
	},
	{
		name: "a Discord webhook", beginnings: []string{"discord.com/", "discordapp.com/"},
		pattern: pattern(`discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{60,}`),
	},
	{
		name: "a Telegram bot token", beginnings: []string{":AA"}, digits: true, // without the number of the bot
		pattern: pattern(`:AA[A-Za-z0-9_-]{33}`),
	},
	{
		name: "a SendGrid key", beginnings: []string{"SG."},
		pattern: pattern(`SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`),
	},
	{
		name: "a Stripe key", beginnings: []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_"},
		pattern: pattern(`[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`),
	},
}
